#include "serve/anthropic/anthropic_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/printable.h"
#include "chat/reasoning.h"
#include "serve/api/api_error.h"
#include "text/common/base64.h"

namespace veery::serve {
namespace {

constexpr std::string_view kShown = "veery", kHidden = "veery:";

[[noreturn]] void refuse_block(const std::string& where, const std::string& type) {
  throw ApiError(
      400,
      fmt::format("{}: a block of type '{}' is not supported: models here read text only", where,
                  printable(type, 40)),
      where.substr(0, where.find(']') + 1), "unsupported_content");
}

using Definitions = std::map<std::string, Json, std::less<>>;  // of tools, by name

/// Reads the blocks of one message or result.
class Blocks {
 public:
  Blocks(const Json& content, std::string where, const Definitions& tools)
      : content_(content), where_(std::move(where)), tools_(tools) {}

  /// Returns the joined texts. Refuses blocks that are not text.
  std::string text() const {
    if (content_.is_string()) return content_.string();
    if (!content_.is_array())
      throw ApiError(400,
                     fmt::format("{} is a JSON {}, expected a text or a list of blocks", where_,
                                 content_.type_name()),
                     where_);
    std::string text;
    for (size_t i = 0; i < content_.size(); ++i) text += text_of(content_[i], i);
    return text;
  }

  std::string place(size_t i) const { return fmt::format("{}[{}]", where_, i); }

  std::string text_of(const Json& block, size_t i) const {
    const Fields fields(block, place(i) + ".");
    const std::string type = fields.require_text("type");
    if (type == "text") return fields.require_text("text");
    if (type == "document") return document(fields, i);
    if (type == "search_result") return search_result(fields, i);
    if (type == "tool_reference") return definition(fields.require_text("tool_name"));
    refuse_block(place(i), type);
  }

 private:
  // Title and context precede the text, so that the model knows what it reads.
  std::string document(const Fields& fields, size_t i) const {
    const Json* given = fields.object("source");
    if (given == nullptr) fields.fail("source", "an object");
    const Fields source(*given, fields.name("source."));
    const std::string type = source.require_text("type");
    std::string text;
    if (type == "text") {
      text = source.require_text("data");
    } else if (type == "content") {
      const Json* content = source.find("content");
      if (content == nullptr) source.fail("content", "a text or a list of blocks");
      text = Blocks(*content, fields.name("source.content"), tools_).text();
    } else {
      refuse_block(place(i), "document with a source of type " + type);
    }
    return headed({fields.text("title").value_or(""), fields.text("context").value_or("")}, text);
  }
  std::string search_result(const Fields& fields, size_t i) const {
    const Json* content = fields.array("content");
    if (content == nullptr) fields.fail("content", "a list of blocks");
    return headed({fields.text("title").value_or(""), fields.text("source").value_or("")},
                  Blocks(*content, place(i) + ".content", tools_).text());
  }
  static std::string headed(std::initializer_list<std::string> heads, const std::string& text) {
    std::string result;
    for (const std::string& head : heads)
      if (!head.empty()) result += head + "\n";
    return result + text + "\n";
  }
  // A tool that is not in the prompt is described where a search finds it.
  std::string definition(const std::string& name) const {
    const auto found = tools_.find(name);
    return (found == tools_.end() ? name : dump_json(found->second)) + "\n";
  }

  const Json& content_;
  std::string where_;
  const Definitions& tools_;
};

std::string thinking_of(const Fields& block) {
  const std::string text = block.text("thinking").value_or("");
  const std::string signature = block.text("signature").value_or("");
  if (!text.empty() || !signature.starts_with(kHidden)) return text;
  return decode_base64(signature.substr(kHidden.size())).value_or("");
}

/// Collects messages in the format of OpenAI. A message with results of tools becomes several.
class Conversation {
 public:
  explicit Conversation(const Definitions& tools) : tools_(tools) {}

  void add(const Json& message, size_t i) {
    const Fields fields(message, fmt::format("messages[{}].", i));
    role_ = fields.require_text("role");
    if (role_ != "user" && role_ != "assistant" && role_ != "system")
      fields.fail("role", "user or assistant");
    const Json* content = fields.find("content");
    if (content == nullptr) fields.fail("content", "a text or a list of blocks");
    if (content->is_string()) {
      messages_.push_back({{"role", role_}, {"content", *content}});
      return;
    }
    if (!content->is_array()) fields.fail("content", "a text or a list of blocks");
    const Blocks blocks(*content, fields.name("content"), tools_);
    begun_ = false;
    for (size_t k = 0; k < content->size(); ++k) block(blocks, (*content)[k], k);
    if (begun_ || role_ == "assistant") flush();
  }
  void add_system(const std::string& text) {
    if (!text.empty()) messages_.push_back({{"role", "system"}, {"content", text}});
  }
  Json take() { return std::move(messages_); }

 private:
  void block(const Blocks& blocks, const Json& block, size_t k) {
    const Fields fields(block, blocks.place(k) + ".");
    const std::string type = fields.require_text("type");
    if (type == "thinking") {
      thinking_ += thinking_of(fields);
    } else if (type == "redacted_thinking") {
      return;  // only its provider can read it
    } else if (type == "tool_use") {
      const Json* input = fields.object("input");
      calls_.push_back({{"id", fields.require_text("id")},
                        {"type", "function"},
                        {"function",
                         {{"name", fields.require_text("name")},
                          {"arguments", input != nullptr ? *input : Json::object()}}}});
    } else if (type == "tool_result") {
      if (begun_) flush();
      result(blocks, fields, k);
      return;
    } else {
      text_ += blocks.text_of(block, k);
    }
    begun_ = true;
  }
  void result(const Blocks& blocks, const Fields& fields, size_t k) {
    const Json* content = fields.find("content");
    std::string text;
    if (content != nullptr) text = Blocks(*content, blocks.place(k) + ".content", tools_).text();
    const auto failed = [&] {
      std::string lower = text;
      std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
      return fields.flag("is_error").value_or(false) && lower.find("error") == std::string::npos;
    };
    if (failed()) text = "Error: " + text;
    messages_.push_back({{"role", "tool"},
                         {"tool_call_id", fields.require_text("tool_use_id")},
                         {"content", text}});
  }
  void flush() {
    Json message = {{"role", role_}, {"content", std::exchange(text_, {})}};
    if (!thinking_.empty()) message["reasoning_content"] = std::exchange(thinking_, {});
    if (!calls_.empty()) message["tool_calls"] = std::exchange(calls_, Json::array());
    messages_.push_back(std::move(message));
    begun_ = false;
  }

  const Definitions& tools_;
  Json messages_ = Json::array();
  std::string role_, text_, thinking_;
  Json calls_ = Json::array();
  bool begun_ = false;
};

// Removes the line for billing with which Claude Code begins its system prompt. It differs in each
// request and would defeat the prefix cache.
std::string without_billing(std::string text) {
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  const size_t end = text.find('\n');
  if (end == std::string::npos) return {};
  return text.substr(std::min(text.find_first_not_of('\n', end), text.size()));
}

std::string read_system(const Json& system, const Definitions& tools) {
  if (!system.is_array() || system.empty())
    return without_billing(Blocks(system, "system", tools).text());
  const Blocks blocks(system, "system", tools);
  std::string text = without_billing(blocks.text_of(system[0], 0));
  for (size_t i = 1; i < system.size(); ++i) text += blocks.text_of(system[i], i);
  return text;
}

struct Tools {
  Json shown;         ///< tools in the prompt, or null
  Json all;           ///< tools that may be called, or null
  Definitions known;  ///< of all tools
};

Json function_of(const Fields& tool) {
  const Json* schema = tool.object("input_schema");
  std::string description = tool.text("description").value_or("");
  if (const Json* examples = tool.array("input_examples"); examples != nullptr)
    for (const Json& example : *examples) description += "\nExample: " + dump_json(example);
  return {{"type", "function"},
          {"function",
           {{"name", tool.require_text("name")},
            {"description", description},
            {"parameters", schema != nullptr ? *schema : Json::object()},
            {"strict", tool.flag("strict").value_or(false)}}}};
}

Tools read_definitions(const Fields& fields) {
  Tools result;
  const Json* tools = fields.array("tools");
  if (tools == nullptr) return result;
  for (size_t i = 0; i < tools->size(); ++i) {
    const Fields tool((*tools)[i], fmt::format("tools[{}].", i));
    const std::string type = tool.text("type").value_or("custom");
    if (type != "custom")
      throw ApiError(400,
                     fmt::format("tools[{}].type '{}' is not supported: the server runs no tools, "
                                 "and has no definition of this one",
                                 i, printable(type, 60)),
                     "tools", "unsupported_parameter");
    Json function = function_of(tool);
    if (!tool.flag("defer_loading").value_or(false)) result.shown.push_back(function);
    result.known[function["function"]["name"].string()] = function;
    result.all.push_back(std::move(function));
  }
  return result;
}

ToolChoice read_choice(const Fields& fields) {
  const Json* given = fields.object("tool_choice");
  if (given == nullptr) return {};
  const Fields choice(*given, "tool_choice.");
  const std::string type = choice.require_text("type");
  if (type != "auto" && type != "none" && type != "any" && type != "tool")
    choice.fail("type", "auto, none, any or tool");
  return {.none = type == "none",
          .must = type == "any" || type == "tool",
          .name = type == "tool" ? choice.require_text("name") : std::string(),
          .several = !choice.flag("disable_parallel_tool_use").value_or(false)};
}

void read_thinking(const Fields& fields, AnthropicPrompt& prompt) {
  const Json* given = fields.object("thinking");
  if (given == nullptr) return;
  const Fields thinking(*given, "thinking.");
  const std::string type = thinking.require_text("type");
  if (type != "enabled" && type != "adaptive" && type != "disabled")
    thinking.fail("type", "enabled, adaptive or disabled");
  set_thinking(prompt.chat.variables, type != "disabled");
  const auto budget = thinking.integer("budget_tokens", 0, INT64_MAX / 2);
  if (type != "disabled") prompt.thinking_budget = budget;
  const std::string display = thinking.text("display").value_or("summarized");
  if (display != "summarized" && display != "omitted")
    thinking.fail("display", "summarized or omitted");
  prompt.hide_thinking = display == "omitted";
}

void read_output(const Fields& fields, AnthropicPrompt& prompt) {
  prompt.format = fields.object("output_format");
  if (prompt.format != nullptr) prompt.format_field = "output_format";
  const Json* given = fields.object("output_config");
  if (given == nullptr) return;
  const Fields output(*given, "output_config.");
  if (const auto effort = output.text("effort"))
    set_reasoning_effort(prompt.chat.variables, *effort);
  if (const Json* format = output.object("format")) {
    prompt.format = format;
    prompt.format_field = "output_config.format";
  }
}

// Removes the thinking of older turns of the assistant.
void clear_thinking(const Fields& edit, Json& messages) {
  const Json* keep = edit.find("keep");
  if (keep == nullptr || *keep == "all") return;
  const Fields fields(*keep, edit.name("keep."));
  if (fields.require_text("type") != "thinking_turns") fields.fail("type", "thinking_turns");
  int64_t left = fields.integer("value", 0, INT32_MAX).value_or(1);
  for (size_t i = messages.size(); i-- > 0;)
    if (messages[i].contains("reasoning_content") && left-- <= 0)
      messages[i].erase("reasoning_content");
}

void manage_context(const Fields& fields, Json& messages) {
  const Json* given = fields.object("context_management");
  if (given == nullptr) return;
  const Json* edits = Fields(*given, "context_management.").array("edits");
  for (size_t i = 0; edits != nullptr && i < edits->size(); ++i) {
    const Fields edit((*edits)[i], fmt::format("context_management.edits[{}].", i));
    if (edit.require_text("type") != "clear_thinking_20251015")
      edit.fail("type", "clear_thinking_20251015, the only edit that is supported");
    clear_thinking(edit, messages);
  }
}

}  // namespace

std::string thinking_signature(const std::string& thinking, bool hidden) {
  return hidden ? std::string(kHidden) + encode_base64(thinking) : std::string(kShown);
}

AnthropicPrompt read_anthropic_prompt(const Fields& fields) {
  AnthropicPrompt prompt;
  Tools tools = read_definitions(fields);
  Conversation conversation(tools.known);
  if (const Json* system = fields.find("system"))
    conversation.add_system(read_system(*system, tools.known));
  const Json& given = fields.require_array("messages");
  if (given.empty()) fields.fail("messages", "one or more");
  for (size_t i = 0; i < given.size(); ++i) conversation.add(given[i], i);
  Json messages = conversation.take();
  manage_context(fields, messages);
  prompt.chat.messages = request_messages(messages);
  prompt.choice = read_choice(fields);
  if (!prompt.choice.none) {
    prompt.chat.tools = std::move(tools.shown);
    prompt.chat.callable = std::move(tools.all);
  }
  read_thinking(fields, prompt);
  read_output(fields, prompt);
  if (const Json* more = fields.object("chat_template_kwargs")) prompt.chat.variables.update(*more);
  return prompt;
}

}  // namespace veery::serve
