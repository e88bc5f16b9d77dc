#include "text/answer/answer_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace veery {
namespace {

using Mode = AnswerMode;

template <typename... Modes>
constexpr uint32_t in(Modes... modes) {
  return (uint32_t{0} | ... | (uint32_t{1} << static_cast<int>(modes)));
}
constexpr uint32_t kFresh = in(Mode::kStart);
constexpr uint32_t kThought = in(Mode::kReasoning);
constexpr uint32_t kOutside = kFresh | kThought | in(Mode::kContent);
constexpr uint32_t kJsonCalls = in(Mode::kCall, Mode::kMaybeCall);
constexpr uint32_t kNamed = in(Mode::kName, Mode::kId);
constexpr uint32_t kGiven = in(Mode::kArguments);
constexpr uint32_t kValues = in(Mode::kValue, Mode::kText, Mode::kJson);
// All modes within a call except values: marks inside a value are part of its text.
constexpr uint32_t kInside =
    kJsonCalls | kNamed | kGiven | in(Mode::kCode, Mode::kBetween, Mode::kKey);

// Reasoning can begin only at the start of an answer or of a part of it. Elsewhere the mark is
// quoted text.
AnswerFeature reasoning(std::string_view name, std::string_view evidence, std::string_view open,
                        std::string_view close) {
  return {name,
          {evidence, {}},
          {{open, kFresh, Mode::kReasoning}, {close, kThought | kFresh, Mode::kStart}}};
}

// Calls between two marks. `quote`: see AnswerFeature.
AnswerFeature calls(std::string_view name, std::string_view evidence, std::string_view open,
                    std::string_view close, Mode mode = Mode::kCall, std::string_view quote = {}) {
  return {name,
          {evidence, {}},
          {{open, kOutside | kInside, mode}, {close, kInside, Mode::kStart}},
          {},
          quote};
}

std::vector<AnswerFeature> make_table() {
  return {
      reasoning("think", "<think>", "<think>", "</think>"),
      reasoning("think_seed", "<seed:think>", "<seed:think>", "</seed:think>"),
      reasoning("think_mistral", "[THINK]", "[THINK]", "[/THINK]"),
      reasoning("think_cohere", "<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>"),
      reasoning("think_gemma", "<|channel>thought", "<|channel>thought\n", "<channel|>"),
      reasoning("think_apertus", "<|inner_prefix|>", "<|inner_prefix|>", "<|inner_suffix|>"),
      reasoning("think_apriel", "Here are my reasoning steps:", "Here are my reasoning steps:\n",
                "[BEGIN FINAL RESPONSE]"),
      calls("tool_call", "<tool_call>", "<tool_call>", "</tool_call>"),
      calls("tool_call_seed", "<seed:tool_call>", "<seed:tool_call>", "</seed:tool_call>"),
      calls("tool_calls", "<tool_calls>", "<tool_calls>", "</tool_calls>"),
      calls("granite", "<|tool_call|>", "<|tool_call|>", "<|/tool_call|>"),
      calls("cohere", "<|START_ACTION|>", "<|START_ACTION|>", "<|END_ACTION|>"),
      calls("apertus", "<|tools_prefix|>", "<|tools_prefix|>", "<|tools_suffix|>"),
      calls("gigachat", "<|function_call|>", "<|function_call|>", "<|message_sep|>"),
      calls("firefunction", "functools[", "functools", "</functools>"),
      calls("lfm2", "<|tool_list_start|>", "<|tool_call_start|>", "<|tool_call_end|>", Mode::kCode),
      calls("function_gemma", "<start_function_call>", "<start_function_call>",
            "<end_function_call>", Mode::kCode, "<escape>"),
      {"gemma4",
       {"<|tool_call>", {}},
       {{"<|tool_call>", kOutside | kInside, Mode::kCode},
        {"<tool_call|>", kInside, Mode::kStart},
        {"<|tool_response>", kInside | kFresh, Mode::kStart}},
       {},
       "<|\"|>"},
      {"gemma3",
       {"<start_of_turn>", {}},
       {{"```tool_code", kOutside, Mode::kCode},
        {"```json", kFresh, Mode::kMaybeCall},
        {"```", kInside, Mode::kStart}}},
      {"gigachat_role",
       {"<|role_sep|>", "function call"},
       {{"<|message_sep|>\n\nfunction call<|role_sep|>\n", kOutside | kInside, Mode::kCall},
        {"<|message_sep|>", kInside, Mode::kStart}}},
      {"cohere_r",
       {"Action:", "```json"},
       {{"Action: ```json", kOutside, Mode::kCall},
        {"Action:\n```json", kOutside, Mode::kCall},
        {"```", kInside, Mode::kStart}}},
      {"cohere_response",
       {"<|START_RESPONSE|>", {}},
       {{"<|START_RESPONSE|>", kFresh | kThought, Mode::kStart},
        {"<|END_RESPONSE|>", kOutside, Mode::kStart}}},
      {"cohere_text",
       {"<|START_TEXT|>", {}},
       {{"<|START_TEXT|>", kFresh | kThought, Mode::kStart},
        {"<|END_TEXT|>", kOutside, Mode::kStart}}},
      {"granite_response",
       {"<response>", {}},
       {{"<response>", kFresh, Mode::kStart}, {"</response>", kOutside, Mode::kStart}}},
      // <function=f>{"a": 1}</function> or <function=f><parameter=a>1</parameter></function>. Line
      // breaks that the template puts around a value are not part of it.
      {"function",
       {"<function=", {}},
       {{"<function=", kOutside | kJsonCalls | in(Mode::kBetween), Mode::kName},
        {">", in(Mode::kName), Mode::kArguments},
        {"<parameter=", kGiven, Mode::kKey},
        {"\n<parameter=", kValues, Mode::kKey},
        {">", in(Mode::kKey), Mode::kValue},
        {">\n", in(Mode::kKey), Mode::kValue},
        {"</parameter>", kValues, Mode::kArguments},
        {"\n</parameter>", kValues, Mode::kArguments},
        {"</function>", kGiven | kNamed | in(Mode::kKey), Mode::kStart},
        {"\n</function>", kValues, Mode::kStart},
        {"<|eom_id|>", kFresh, Mode::kStart},
        {"</tool_call>", kFresh, Mode::kStart},
        {"</seed:tool_call>", kFresh, Mode::kStart}}},
      // <tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>
      {"glm",
       {"<arg_key>", {}},
       {{"<arg_key>", kNamed | kGiven, Mode::kKey},
        {"</arg_key>", in(Mode::kKey), Mode::kArguments},
        {"<arg_value>", kGiven | in(Mode::kKey), Mode::kValue},
        {"</arg_value>", kValues, Mode::kArguments},
        {"</tool_call>", kValues, Mode::kStart}}},
      // [TOOL_CALLS][{"name": "f", "arguments": {}}], [TOOL_CALLS]f[CALL_ID]x[ARGS]{}
      {"mistral",
       {"[TOOL_CALLS]", {}},
       {{"[TOOL_CALLS]", kOutside | kInside, Mode::kCall},
        {"[CALL_ID]", kNamed, Mode::kId},
        {"[ARGS]", kNamed, Mode::kArguments}}},
      // Two forms: function<sep>f followed by a JSON code fence, and f<sep>{}.
      {"deepseek_fenced",
       {"<｜tool▁sep｜>", "```json"},
       {{"<｜tool▁sep｜>", kNamed, Mode::kName},
        {"```json", kNamed, Mode::kArguments},
        {"```", kGiven, Mode::kArguments}}},
      {"deepseek_plain",
       {"<｜tool▁sep｜>", {}},
       {{"<｜tool▁sep｜>", kNamed, Mode::kArguments}},
       "```json"},
      {"deepseek",
       {"<｜tool▁call▁begin｜>", {}},
       {{"<｜tool▁calls▁begin｜>", kOutside, Mode::kBetween},
        {"<｜tool▁call▁begin｜>", kOutside | kInside, Mode::kName},
        {"<｜tool▁call▁end｜>", kInside, Mode::kBetween},
        {"<｜tool▁calls▁end｜>", kInside | kFresh, Mode::kStart}}},
      {"dsml",
       {"｜DSML｜", "invoke"},
       {{"<｜DSML｜function_calls>", kOutside, Mode::kBetween},
        {"<｜DSML｜tool_calls>", kOutside, Mode::kBetween},
        {"<｜DSML｜invoke name=\"", kOutside | kInside, Mode::kName},
        {"\">", in(Mode::kName), Mode::kArguments},
        {"<｜DSML｜parameter name=\"", kGiven, Mode::kKey},
        {"\" string=\"true\">", in(Mode::kKey), Mode::kText},
        {"\" string=\"false\">", in(Mode::kKey), Mode::kJson},
        {"\">", in(Mode::kKey), Mode::kValue},
        {"</｜DSML｜parameter>", kValues, Mode::kArguments},
        {"</｜DSML｜invoke>", kInside, Mode::kBetween},
        {"</｜DSML｜function_calls>", kInside | kFresh, Mode::kStart},
        {"</｜DSML｜tool_calls>", kInside | kFresh, Mode::kStart}}},
      {"kimi",
       {"<|tool_calls_section_begin|>", {}},
       {{"<|tool_calls_section_begin|>", kOutside, Mode::kBetween},
        {"<|tool_call_begin|>", kOutside | kInside, Mode::kName},
        {"<|tool_call_argument_begin|>", kNamed, Mode::kArguments},
        {"<|tool_call_end|>", kInside, Mode::kBetween},
        {"<|tool_calls_section_end|>", kInside | kFresh, Mode::kStart}}},
      {"functionary",
       {">>>all", {}},
       {{">>>", kOutside | kGiven, Mode::kRecipient},
        {"\n", in(Mode::kRecipient), Mode::kArguments}},
       {},
       {},
       {},
       false,
       Mode::kRecipient},
      // Messages with a header: channel "analysis" is reasoning, a recipient makes the message a
      // call.
      {"harmony",
       {"<|channel|>", "<|message|>"},
       {{"<|start|>", kOutside | kInside | in(Mode::kHeader), Mode::kHeader},
        {"<|channel|>", kOutside | kGiven | in(Mode::kHeader), Mode::kHeader},
        {"<|constrain|>", in(Mode::kHeader), Mode::kHeader},
        {"<|message|>", in(Mode::kHeader), Mode::kContent},
        {"<|end|>", kOutside | kInside, Mode::kHeader},
        {"<|return|>", kOutside | kInside, Mode::kHeader},
        {"<|call|>", kOutside | kInside, Mode::kHeader}},
       {},
       {},
       {},
       false,
       Mode::kHeader,
       "<|end|><|start|>assistant<|channel|>final<|message|>"},
      {"llama3",
       {"<|start_header_id|>", "\"parameters\""},
       {{"<|python_tag|>", kOutside, Mode::kCode}, {"<|eom_id|>", kInside | kFresh, Mode::kStart}},
       {},
       {},
       "python",
       true},
  };
}

const std::vector<AnswerFeature>& table() {
  static const std::vector<AnswerFeature> rows = make_table();
  return rows;
}

}  // namespace

AnswerFormat AnswerFormat::of_template(std::string_view source) {
  AnswerFormat format;
  const auto shows = [&](std::string_view evidence) {
    return source.find(evidence) != std::string_view::npos;
  };
  for (const AnswerFeature& feature : table())
    if (shows(feature.evidence[0]) && shows(feature.evidence[1]) &&
        (feature.unless.empty() || !shows(feature.unless)))
      format.features_.push_back(&feature);
  return format;
}

AnswerFormat AnswerFormat::named(std::string_view names) {
  AnswerFormat format;
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name == "none") continue;
    const auto found = std::find_if(table().begin(), table().end(),
                                    [&](const AnswerFeature& row) { return row.name == name; });
    if (found == table().end())
      throw Error(ErrorKind::kInput, "unknown answer format '{}', expected none, {}", name,
                  fmt::join(all_names(), ", "));
    format.features_.push_back(&*found);
  }
  return format;
}

std::vector<std::string_view> AnswerFormat::all_names() {
  std::vector<std::string_view> names;
  for (const AnswerFeature& feature : table()) names.push_back(feature.name);
  return names;
}

AnswerFormat AnswerFormat::with(std::string_view name) const {
  AnswerFormat format = *this;
  for (const AnswerFeature* feature : named(name).features_)
    if (std::ranges::find(features_, feature) == features_.end())
      format.features_.push_back(feature);
  return format;
}

bool AnswerFormat::marks_reasoning(std::string_view token) const {
  for (const AnswerFeature* feature : features_)
    for (const AnswerMark& mark : feature->marks) {
      const bool reasoning = mark.to == Mode::kReasoning || mark.from == (kThought | kFresh);
      if (reasoning && mark.text.find(token) != std::string_view::npos) return true;
    }
  return false;
}

bool AnswerFormat::reasons() const {
  const auto leads = [](const AnswerMark& mark) {
    return mark.to == Mode::kReasoning || mark.to == Mode::kHeader;
  };
  return std::ranges::any_of(features_, [&](const AnswerFeature* feature) {
    return std::ranges::any_of(feature->marks, leads);
  });
}

std::string AnswerFormat::name() const {
  std::string name;
  for (const AnswerFeature* feature : features_)
    name += (name.empty() ? "" : ",") + std::string(feature->name);
  return name.empty() ? "none" : name;
}

bool AnswerFormat::shows(std::string_view token) const {
  if (token.empty()) return false;
  const auto has = [&](std::string_view text) { return text.find(token) != text.npos; };
  for (const AnswerFeature* feature : features_) {
    if (has(feature->quote)) return true;
    for (const AnswerMark& mark : feature->marks)
      if (has(mark.text)) return true;
  }
  return false;
}

}  // namespace veery
