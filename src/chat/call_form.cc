#include "chat/call_form.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "chat/chat.h"
#include "text/answer/answer_parser.h"

namespace veery {
namespace {

// Texts that no template contains.
constexpr std::string_view kContent = "\xc2\xa7 veery content";
constexpr std::string_view kNames[] = {"veery_first_tool", "veery_second_tool"};
constexpr std::string_view kValues[] = {"veery first value", "veery second value"};
constexpr std::string_view kIds[] = {"veeryId01", "veeryId02"};  // nine letters: Mistral's rule
constexpr std::string_view kKeys[] = {"veery_key", "veery_other"};
constexpr int64_t kNumber = 73465;

Json string_parameters() {
  return {{"type", "object"},
          {"properties", {{kKeys[0], {{"type", "string"}}}, {kKeys[1], {{"type", "string"}}}}}};
}

Json described_tools() {
  Json tools = Json::array();
  for (const std::string_view name : kNames)
    tools.push_back(
        {{"type", "function"},
         {"function",
          {{"name", name}, {"description", "what it does"}, {"parameters", string_parameters()}}}});
  return tools;
}

// Returns the first argument alone.
Json one_argument(const Json& value) { return {{kKeys[0], value}}; }

class Reader {
 public:
  Reader(const ChatTemplates& templates, const Model& model)
      : templates_(templates),
        model_(model),
        text_arguments_(templates.traits(/*tools=*/true).text_arguments) {}

  CallForm read() const {
    const std::optional<std::string> plain = render({{"role", "assistant"}, {"content", kContent}});
    if (!plain) refuse("its chat template refuses calls");
    const std::string one = rendered(*plain, message({one_argument(kValues[0])}));
    const size_t name = find(one, kNames[0], 0);
    CallForm form;
    form.open = one.substr(0, name);
    if (const auto found = find_json(one, kValues[0], name); found.size > 0) {
      form.middle = between(one, name + kNames[0].size(), found.at);
      form.close = until_end(one.substr(found.at + found.size));
      read_joint(form, *plain);
    } else {
      read_members(form, *plain);
    }
    for (std::string* part : {&form.open, &form.middle, &form.close, &form.separator})
      hide_ids(*part);
    return form;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::kUnsupported, "{}: tool calls cannot be constrained: {}", model_.path(),
                why);
  }

  // Returns a message with one call for each of the arguments.
  Json message(const std::vector<Json>& arguments) const {
    Json list = Json::array();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Json given = text_arguments_ ? Json(dump_json(arguments[i])) : arguments[i];
      list.push_back({{"id", kIds[i]},
                      {"type", "function"},
                      {"function", {{"name", kNames[i]}, {"arguments", given}}}});
    }
    return {{"role", "assistant"}, {"content", ""}, {"tool_calls", list}};
  }

  // Renders a conversation with the answer. Returns nothing if the template refuses it.
  std::optional<std::string> render(const Json& answer) const {
    const Json messages = Json::array({{{"role", "user"}, {"content", "a question"}}, answer});
    try {
      return templates_.pick(/*tools=*/true)
          .render(template_variables(templates_.special(), messages, false,
                                     {{"tools", described_tools()}}));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug || error.kind() == ErrorKind::kIo) throw;
      return std::nullopt;
    }
  }

  // Renders the calls and returns the text from the first difference to a plain answer on.
  std::string rendered(const std::string& plain, const Json& answer) const {
    const std::optional<std::string> text = render(answer);
    if (!text) refuse("its chat template refuses calls");
    const auto differs = std::mismatch(plain.begin(), plain.end(), text->begin(), text->end());
    return std::string(differs.second, text->end());
  }

  size_t find(const std::string& text, std::string_view what, size_t from) const {
    const size_t place = text.find(what, from);
    if (place == std::string::npos) refuse("its chat template does not render calls");
    return place;
  }

  static std::string between(const std::string& text, size_t begin, size_t end) {
    return text.substr(begin, end - begin);
  }

  struct Place {
    size_t at = 0, size = 0;
  };
  // Finds the arguments as JSON. Returns size 0 if they are not in the text.
  static Place find_json(const std::string& text, std::string_view value, size_t from) {
    for (const char* colon : {": ", ":"}) {
      const std::string json = fmt::format("{{\"{}\"{}\"{}\"}}", kKeys[0], colon, value);
      if (const size_t at = text.find(json, from); at != std::string::npos)
        return {at, json.size()};
    }
    return {};
  }

  // Returns the text up to the first token that ends an answer.
  std::string until_end(std::string text) const {
    for (const int32_t id : model_.tokenizer().special().ends)
      text.resize(std::min(text.find(model_.tokenizer().token(id)), text.size()));
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
  }

  // Renders two calls. Returns an empty text if the template does not render both.
  std::string two_calls(const std::string& plain) const {
    const Json answer = message({one_argument(kValues[0]), one_argument(kValues[1])});
    const std::string text = render(answer) ? rendered(plain, answer) : "";
    return text.find(kNames[1]) == std::string::npos ? "" : text;
  }

  // Reads the text between the arguments of a call and the name of the next one.
  void read_joint(CallForm& form, const std::string& plain) const {
    const std::string two = two_calls(plain);
    if (two.empty()) return;
    const Place first = find_json(two, kValues[0], 0);
    const size_t end = first.at + first.size;
    const size_t name = find(two, kNames[1], end), middle = name + kNames[1].size();
    const Place second = find_json(two, kValues[1], name);
    if (first.size > 0 && second.size > 0 && between(two, middle, second.at) == form.middle)
      form.separator = between(two, end, name);
  }

  // Reads the marks of arguments that are keys and values between marks. In a call with two
  // arguments, `key` is the text before both keys and `end` the text after both values.
  void read_members(CallForm& form, const std::string& plain) const {
    const Json arguments = {{kKeys[0], kValues[0]}, {kKeys[1], kValues[1]}};
    const std::string text = rendered(plain, message({arguments}));
    size_t at[5], ends[5];
    const std::string_view parts[] = {kNames[0], kKeys[0], kValues[0], kKeys[1], kValues[1]};
    for (size_t i = 0; i < 5; ++i) {
      at[i] = text.find(parts[i], i == 0 ? 0 : ends[i - 1]);
      if (at[i] == std::string::npos)
        refuse("its chat template writes arguments in an unknown syntax");
      ends[i] = at[i] + parts[i].size();
    }
    const std::string first = between(text, ends[0], at[1]), next = between(text, ends[2], at[3]);
    const auto same = std::mismatch(first.rbegin(), first.rend(), next.rbegin(), next.rend());
    const auto length = static_cast<size_t>(same.first - first.rbegin());
    MemberMarks& marks = form.members;
    marks.key = first.substr(first.size() - length);
    marks.text = between(text, ends[1], at[2]);
    marks.end = next.substr(0, next.size() - length);
    form.middle = first.substr(0, first.size() - length);
    form.close = until_end(text.substr(ends[4]));
    if (marks.key.empty() || marks.end.empty() || !form.close.starts_with(marks.end) ||
        between(text, ends[3], at[4]) != marks.text)
      refuse("its chat template writes arguments in an unknown syntax");
    form.close.erase(0, marks.end.size());
    marks.json = mark_before_number(plain);
    read_stops(marks);
    if (const std::string two = two_calls(plain); !two.empty()) {
      const size_t value = find(two, kValues[0], 0) + kValues[0].size();
      const std::string rest = between(two, value, find(two, kNames[1], value));
      if (rest.starts_with(marks.end)) form.separator = rest.substr(marks.end.size());
    }
    check_reading(form);
  }

  std::string mark_before_number(const std::string& plain) const {
    const std::string text = rendered(plain, message({one_argument(kNumber)}));
    const size_t key = find(text, kKeys[0], 0) + kKeys[0].size();
    return between(text, key, find(text, fmt::format("{}", kNumber), key));
  }

  void read_stops(MemberMarks& marks) const {
    constexpr auto bit = [](AnswerMode mode) { return uint32_t{1} << static_cast<int>(mode); };
    constexpr uint32_t kInValues =
        bit(AnswerMode::kValue) | bit(AnswerMode::kText) | bit(AnswerMode::kJson);
    for (const AnswerFeature* feature : templates_.answer_format().features())
      for (const AnswerMark& mark : feature->marks)
        if ((mark.from & kInValues) != 0) marks.stops.emplace_back(mark.text);
    const auto longer = [&](const std::string& stop) {
      return std::ranges::any_of(marks.stops, [&](const std::string& other) {
        return other != stop && stop.find(other) != std::string::npos;
      });
    };
    const std::vector<std::string> all = marks.stops;
    std::vector<std::string> shortest;
    for (const std::string& stop : all)
      if (!longer(stop) && std::ranges::find(shortest, stop) == shortest.end())
        shortest.push_back(stop);
    marks.stops = std::move(shortest);
  }

  // Checks that the answer parser reads such a call back, and whether it drops line breaks.
  void check_reading(CallForm& form) const {
    MemberMarks& marks = form.members;
    const auto parsed = [&](const std::string& member) {
      AnswerParser parser(templates_.answer_format(), {.tools = described_tools()});
      parser.push(form.open + std::string(kNames[0]) + form.middle + marks.key +
                  std::string(kKeys[0]) + member + marks.end + form.close);
      parser.finish();
      const std::vector<ToolCall>& calls = parser.answer().calls;
      const std::optional<Json> arguments = calls.size() == 1 && calls[0].name == kNames[0]
                                                ? maybe_json(calls[0].arguments)
                                                : std::nullopt;
      const Json* value =
          arguments && arguments->is_object() ? arguments->member(std::string(kKeys[0])) : nullptr;
      return value != nullptr && value->is_string() ? value->string() : std::string();
    };
    const std::string broken = "\n" + std::string(kValues[0]) + "\n";
    const std::string read = parsed(marks.text + broken);
    const bool named = std::ranges::all_of(
        marks.stops, [](const std::string& stop) { return stop.find('<') != std::string::npos; });
    if (parsed(marks.text + std::string(kValues[0])) != kValues[0] || marks.stops.empty() ||
        !named || read.find(kValues[0]) == std::string::npos)
      refuse("the answer parser does not read its calls back");
    marks.drops_first_break = !read.starts_with('\n');
    marks.drops_last_break = !read.ends_with('\n');
  }

  static void hide_ids(std::string& text) {
    for (const std::string_view id : kIds)
      for (size_t at = text.find(id); at != std::string::npos; at = text.find(id))
        text.replace(at, id.size(), CallForm::kId);
  }

  const ChatTemplates& templates_;
  const Model& model_;
  bool text_arguments_;
};

}  // namespace

CallForm find_call_form(const ChatTemplates& templates, const Model& model) {
  return Reader(templates, model).read();
}

CallForm find_call_form(const Model& model) {
  if (model.chat_templates() == nullptr)
    throw Error(ErrorKind::kUnsupported,
                "{}: tool calls cannot be constrained: the model has no chat template",
                model.path());
  return find_call_form(*model.chat_templates(), model);
}

}  // namespace veery
