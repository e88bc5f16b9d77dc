#include "chat/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "chat/call_form.h"
#include "chat/chat.h"
#include "text/chat/control_guard.h"
#include "text/chat/generic_calls.h"
#include "text/special_tokens.h"
#include "text/system_messages.h"

namespace veery {
namespace {

// Marks the end of the continued message. Noncharacters, which no template or message contains.
constexpr std::string_view kEnd = "\xEF\xB7\xAE\xEF\xB7\xAF";  // U+FDEE U+FDEF

bool is_assistant(const Json& message) {
  const Json* role = message.is_object() ? message.member("role") : nullptr;
  return role != nullptr && *role == "assistant";
}

std::string text_member(const Json& message, const char* key) {
  const Json* found = message.member(key);
  return found != nullptr && found->is_string() ? found->string() : std::string();
}

std::string reasoning_of(const Json& message) {
  for (const char* key : {"reasoning_content", "thinking", "reasoning"})
    if (std::string text = text_member(message, key); !text.empty()) return text;
  return {};
}

bool has_calls(const Json& message) {
  const Json* calls = message.is_object() ? message.member("tool_calls") : nullptr;
  return calls != nullptr && calls->is_array() && !calls->empty();
}

bool speaks_of_tools(const Json& messages) {
  return std::ranges::any_of(messages.begin(), messages.end(), [](const Json& message) {
    const Json* role = message.is_object() ? message.member("role") : nullptr;
    return has_calls(message) || (role != nullptr && *role == "tool");
  });
}

// Returns nine letters or digits that depend on the id only.
std::string nine_letters(const std::string& id) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (id.size() == 9 && std::ranges::all_of(id, plain)) return id;
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string out;
  Hash hash;
  hash.add(id);
  for (uint64_t code = hash.value(); out.size() < 9; code /= kDigits.size())
    out += kDigits[code % kDigits.size()];
  return out;
}

void shorten_ids(Json& messages) {
  const auto shorten = [](Json& object, const char* key) {
    const Json* id = object.member(key);
    if (id != nullptr && id->is_string()) object[key] = nine_letters(id->string());
  };
  for (Json& message : messages) {
    if (!message.is_object()) continue;
    shorten(message, "tool_call_id");
    if (!has_calls(message)) continue;
    for (Json& call : message["tool_calls"])
      if (call.is_object()) shorten(call, "id");
  }
}

// Writes arguments of calls as JSON text, for templates that do not accept objects.
void write_arguments(Json& messages) {
  for (Json& message : messages) {
    if (!has_calls(message)) continue;
    for (Json& call : message["tool_calls"]) {
      const Json* function = call.is_object() ? call.member("function") : nullptr;
      const Json* arguments = function != nullptr ? function->member("arguments") : nullptr;
      if (arguments != nullptr && !arguments->is_string())
        call["function"]["arguments"] = spaced_json(*arguments);
    }
  }
}

// Returns the bytes of all strings in `json`.
size_t text_bytes(const Json& json) {
  if (json.is_string()) return json.string().size();
  size_t sum = 0;
  if (json.is_array() || json.is_object())
    for (const Json& item : json) sum += text_bytes(item);
  return sum;
}

// Returns limits that grow with the conversation: they bound the work of the template, not the
// length of messages.
ChatTemplate::Options limits_for(const Json& messages) {
  const size_t bytes = text_bytes(messages);
  ChatTemplate::Options options;
  options.max_steps += static_cast<int64_t>(16 * bytes);
  options.max_output += 2 * bytes;
  options.max_memory += 16 * bytes;
  return options;
}

/// Renders one conversation.
class Renderer {
 public:
  Renderer(const Model& model, const Conversation& of)
      : model_(model),
        given_(of),
        templates_(of.templates ? *of.templates : *model.chat_templates()),
        with_tools_(of.tools.is_array() && !of.tools.empty()),
        format_(templates_.answer_format()),
        limits_(limits_for(of.messages)),
        messages_(of.messages),
        tools_(with_tools_ ? completed_tools(of.tools) : Json()) {}

  RenderedConversation run(LostBytes* lost) {
    guard();
    place_tools();
    if (continues_last()) {
      render_begun();
    } else {
      text_ = rendered(messages_, given_.generation_prompt);
      prompt_ = text_;
    }
    const std::string plain = without_guard(text_, mark_);
    const std::string prompt = without_guard(prompt_, mark_);
    return {.text = plain,
            .ids = encode_prompt(model_.tokenizer(), text_, lost, mark_),
            .format = format_,
            .parser = AnswerParser(
                format_, {.tools = given_.callable.is_null() ? given_.tools : given_.callable,
                          .prompt = prompt,
                          .prefill = plain.substr(prompt.size())}),
            .begun = begun_,
            .generic_form = generic_ ? std::optional(form_) : std::nullopt,
            .guarded_text = text_,
            .guard = mark_};
  }

 private:
  // Marks control tokens in messages, tools and documents as text. Reasoning marks in assistant
  // messages stay tokens, since templates look for them.
  void guard() {
    if (given_.parse_special.value_or(model_.options().parse_special)) return;
    const ControlGuard& guard = model_.control_guard();
    const Json* documents = given_.variables.member("documents");
    const bool found = guard.finds(messages_) || guard.finds(tools_) ||
                       (documents != nullptr && guard.finds(*documents));
    if (!found) return;
    mark_ = ControlGuard::mark_for(dump_json(messages_) + dump_json(tools_) +
                                   dump_json(given_.variables) + templates_.source(with_tools_));
    tools_ = guard.guarded(tools_, mark_);
    if (documents != nullptr) documents_ = guard.guarded(*documents, mark_);
    for (Json& message : messages_) {
      if (!message.is_object()) continue;
      const bool assistant = is_assistant(message);
      Json copy = Json::object();
      for (const auto& [key, value] : message.items())
        copy[key] = key == "role" ? value
                    : assistant   ? guard.guarded(value, mark_,
                                                  [&](std::string_view token) {
                                                  return format_.marks_reasoning(token);
                                                })
                                  : guard.guarded(value, mark_);
      message = std::move(copy);
    }
  }

  // Writes tools as text if the template does not render them.
  void place_tools() {
    if (!with_tools_ && !speaks_of_tools(messages_)) return;
    const ChatTemplates::Traits& traits = templates_.traits(with_tools_);
    if (traits.nine_letters) shorten_ids(messages_);
    if (traits.text_arguments) write_arguments(messages_);
    form_ = generic_call_form(format_);
    generic_ = !traits.calls || !traits.results;
    const bool described = !with_tools_ || traits.tools;
    CallForm own = form_;
    if (!described && !generic_) {
      try {
        own = find_call_form(templates_, model_);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUnsupported) throw;
        generic_ = true;
      }
    }
    if (generic_) {
      messages_ = with_calls_as_text(messages_, form_);
      format_ = format_.with(kGenericCalls);
    }
    if (described) return;
    messages_ = with_described_tools(messages_, tools_, own, traits.system);
    tools_ = nullptr;
  }

  // Looks at the given messages: calls that place_tools() wrote as text cannot be continued.
  bool continues_last() const {
    if (given_.continue_last) return *given_.continue_last && !given_.messages.empty();
    const Json& messages = given_.messages;
    return messages.size() > 1 && is_assistant(messages.back()) && !has_calls(messages.back()) &&
           given_.generation_prompt;
  }

  // Splits content that begins with a reasoning mark into reasoning and content.
  Json split_reasoning(Json message) const {
    std::string content = text_member(message, "content");
    if (!reasoning_of(message).empty()) return message;
    for (const AnswerFeature* feature : format_.features())
      for (const AnswerMark& open : feature->marks) {
        if (open.to != AnswerMode::kReasoning || !content.starts_with(open.text)) continue;
        std::string rest = content.substr(open.text.size());
        const std::string_view close = reasoning_close(feature);
        const size_t end = close.empty() ? std::string::npos : rest.find(close);
        message["reasoning_content"] = rest.substr(0, end);
        rest = end == std::string::npos ? "" : rest.substr(end + close.size());
        rest.erase(0, std::min(rest.find_first_not_of('\n'), rest.size()));
        message["content"] = rest;
        return message;
      }
    return message;
  }

  static std::string_view reasoning_close(const AnswerFeature* feature) {
    for (const AnswerMark& mark : feature->marks)
      if (mark.to == AnswerMode::kStart && mark.text != feature->marks[0].text) return mark.text;
    return {};
  }

  // Prefill, like continue_final_message of transformers: the template renders the last message,
  // and the text ends with it.
  void render_begun() {
    begun_ = true;
    Json last = split_reasoning(messages_.back());
    Json before = messages_;
    before.erase(before.size() - 1);
    const std::string content = text_member(last, "content"), reasoning = reasoning_of(last);
    const bool reasons = content.empty() && !reasoning.empty();
    std::string generated = before.empty() ? std::string() : rendered(before, true);
    Json ended = last;
    ended[reasons ? "reasoning_content" : "content"] =
        (reasons ? reasoning : content) + std::string(kEnd);
    if (reasons) {
      ended.erase("thinking");
      ended.erase("reasoning");
    }
    Json all = before;
    all.push_back(ended);
    if (content.empty() && reasoning.empty()) {
      text_ = generated;
    } else if (std::optional<std::string> full = try_rendered(all, false);
               full && full->find(kEnd) != std::string::npos) {
      text_ = full->substr(0, full->rfind(kEnd));
    } else {
      const std::string begun = written_beginning(generated, content, reasoning);
      text_ = generated + begun;
    }
    prompt_ = text_.substr(0, prompt_end(generated));
  }

  // Returns the text that continues `generated`, for templates that do not render the last message
  // verbatim. Removes marks from `generated` that end the reasoning before it has begun.
  std::string written_beginning(std::string& generated, const std::string& content,
                                const std::string& reasoning) const {
    const AnswerParser parser(format_, {.tools = nullptr, .prompt = generated, .prefill = {}});
    if (reasoning.empty() && parser.reasoning_end().empty()) return content;
    const AnswerFeature* feature = reasoning_feature();
    if (feature == nullptr)
      throw Error(ErrorKind::kInput,
                  "the last message has reasoning to continue, but the chat template has no "
                  "reasoning");
    const std::string_view open = trimmed_end(feature->marks[0].text);
    const std::string_view close = reasoning_close(feature);
    std::string begun;
    if (parser.reasoning_end().empty()) {
      std::string_view base = trimmed_end(generated);
      if (base.ends_with(close))
        generated = std::string(trimmed_end(base.substr(0, base.size() - close.size())));
      if (!trimmed_end(generated).ends_with(open)) begun = open;
      begun += '\n';
    }
    begun += reasoning;
    return content.empty() ? begun : begun + "\n" + std::string(close) + "\n\n" + content;
  }

  const AnswerFeature* reasoning_feature() const {
    for (const AnswerFeature* feature : format_.features())
      if (feature->marks[0].to == AnswerMode::kReasoning) return feature;
    return nullptr;
  }

  static std::string_view trimmed_end(std::string_view text) {
    return text.substr(0, text.find_last_not_of(" \n") + 1);
  }

  // Returns the offset in text_ at which the answer begins: the end of the longest common prefix
  // with the template's generation prompt, moved out of a mark that it would split.
  size_t prompt_end(const std::string& generated) const {
    const auto differ =
        std::mismatch(generated.begin(), generated.end(), text_.begin(), text_.end());
    size_t end = static_cast<size_t>(differ.first - generated.begin());
    if (end == generated.size()) return end;
    for (const AnswerFeature* feature : format_.features())
      for (const AnswerMark& mark : feature->marks)
        for (const std::string* text : {&generated, &text_}) {
          const size_t from = end - std::min(end, mark.text.size());
          const size_t at = text->find(mark.text, from);
          if (at != std::string::npos && at < end && at + mark.text.size() > end) end = at;
        }
    return end;
  }

  Json variables(const Json& messages, bool generation_prompt) const {
    Json more = given_.variables;
    more["tools"] = tools_;
    if (!documents_.is_null()) more["documents"] = documents_;
    return template_variables(templates_.special(), messages, generation_prompt, more);
  }

  std::string rendered_once(const Json& messages, bool generation_prompt) const {
    const auto render = [&](const Json& fitted) {
      return templates_.pick(with_tools_).render(variables(fitted, generation_prompt), limits_);
    };
    const Json fitted = fit_system_messages(messages, render);
    return render(given_.keep_system ? keep_first_system(fitted, render) : fitted);
  }

  // If the template fails, renders again with empty content in messages without content and with
  // properties in tools without properties.
  std::string rendered(const Json& messages, bool generation_prompt) {
    try {
      return rendered_once(messages, generation_prompt);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug || error.kind() == ErrorKind::kLimit) throw;
      Json filled = messages;
      bool changed = false;
      for (Json& message : filled)
        if (message.is_object() &&
            (!message.contains("content") || message.at("content").is_null())) {
          message["content"] = "";
          changed = true;
        }
      Json completed = completed_tools(tools_, /*properties=*/true);
      changed = changed || !(completed == tools_);
      if (!changed) throw;
      tools_ = std::move(completed);
      return rendered_once(filled, generation_prompt);
    }
  }

  std::optional<std::string> try_rendered(const Json& messages, bool generation_prompt) {
    try {
      return rendered(messages, generation_prompt);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug || error.kind() == ErrorKind::kLimit) throw;
      return std::nullopt;
    }
  }

  const Model& model_;
  const Conversation& given_;
  const ChatTemplates& templates_;
  bool with_tools_;
  AnswerFormat format_;
  ChatTemplate::Options limits_;
  Json messages_, tools_, documents_;
  std::string mark_;           ///< of the guard; empty: none
  std::string text_, prompt_;  ///< with marks
  bool begun_ = false, generic_ = false;
  CallForm form_;
};

}  // namespace

RenderedConversation render_conversation(const Model& model, const Conversation& conversation,
                                         LostBytes* lost) {
  if (!conversation.templates && model.chat_templates() == nullptr)
    throw Error(ErrorKind::kUnsupported, "{}: the model has no chat template", model.path());
  return Renderer(model, conversation).run(lost);
}

std::shared_ptr<const ChatTemplates> other_templates(const Model& model, std::string_view choice) {
  return std::make_shared<const ChatTemplates>(
      chosen_templates(model.chat_template_sources(), choice),
      special_token_variables(model.tokenizer()), "chat_template");
}

}  // namespace veery
