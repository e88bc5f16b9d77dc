#include "engine/chat/call_form.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "engine/chat/chat.h"

namespace veery {
namespace {

// What no template writes itself.
constexpr std::string_view kContent = "\xc2\xa7 veery content";
constexpr std::string_view kNames[] = {"veery_first_tool", "veery_second_tool"};
constexpr std::string_view kValues[] = {"veery first value", "veery second value"};
constexpr std::string_view kIds[] = {"veeryId01", "veeryId02"};  // nine letters: Mistral's rule
constexpr std::string_view kKey = "veery_key";

class Reader {
 public:
  Reader(const ChatTemplates& templates, const Model& model)
      : templates_(templates), model_(model) {}

  CallForm read() const {
    const std::optional<std::string> plain = render({{"role", "assistant"}, {"content", kContent}});
    const std::optional<std::string> one = render(message(1));
    if (!plain || !one) refuse("its chat template refuses calls");
    const size_t begin = static_cast<size_t>(
        std::mismatch(plain->begin(), plain->end(), one->begin(), one->end()).second -
        one->begin());
    CallForm form;
    const size_t name = find(*one, kNames[0], begin);
    const size_t arguments = find_arguments(*one, 0, name);
    const size_t end = arguments + length_of_arguments(*one, arguments);
    form.open = one->substr(begin, name - begin);
    form.middle = one->substr(name + kNames[0].size(), arguments - name - kNames[0].size());
    form.close = until_end(one->substr(end));
    read_joint(form, begin);
    for (std::string* part : {&form.open, &form.middle, &form.close, &form.joint}) hide_ids(*part);
    return form;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorKind::kUnsupported, "{}: calls of tools cannot be held to a form: {}",
                model_.path(), why);
  }

  static Json message(size_t calls) {
    Json list = Json::array();
    for (size_t i = 0; i < calls; ++i)
      list.push_back({{"id", kIds[i]},
                      {"type", "function"},
                      {"function", {{"name", kNames[i]}, {"arguments", {{kKey, kValues[i]}}}}}});
    return {{"role", "assistant"}, {"content", ""}, {"tool_calls", list}};
  }

  // Absent where the template refuses it.
  std::optional<std::string> render(const Json& answer) const {
    Json tools = Json::array();
    for (const std::string_view name : kNames)
      tools.push_back({{"type", "function"},
                       {"function",
                        {{"name", name},
                         {"description", "what it does"},
                         {"parameters",
                          {{"type", "object"}, {"properties", {{kKey, {{"type", "string"}}}}}}}}}});
    const Json messages = Json::array({{{"role", "user"}, {"content", "a question"}}, answer});
    try {
      return templates_.pick(/*tools=*/true)
          .render(template_variables(templates_.special(), messages, false, {{"tools", tools}}));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug || error.kind() == ErrorKind::kIo) throw;
      return std::nullopt;
    }
  }

  size_t find(const std::string& text, std::string_view what, size_t from) const {
    const size_t place = text.find(what, from);
    if (place == std::string::npos) refuse("its chat template has no place for calls");
    return place;
  }

  static std::string arguments(size_t call, const char* colon) {
    return fmt::format("{{\"{}\"{}\"{}\"}}", kKey, colon, kValues[call]);
  }

  size_t find_arguments(const std::string& text, size_t call, size_t from) const {
    for (const char* colon : {": ", ":"})
      if (const size_t place = text.find(arguments(call, colon), from); place != std::string::npos)
        return place;
    refuse("it writes their arguments otherwise than as JSON behind the name");
  }

  static size_t length_of_arguments(const std::string& text, size_t at) {
    return text.find('}', at) + 1 - at;
  }

  // Up to the first token that ends an answer.
  std::string until_end(std::string text) const {
    for (const int32_t id : model_.tokenizer().special().ends)
      text.resize(std::min(text.find(model_.tokenizer().token(id)), text.size()));
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
  }

  // From the arguments of a call to the name of the next one.
  void read_joint(CallForm& form, size_t begin) const {
    const std::optional<std::string> two = render(message(2));
    if (!two || two->find(kNames[1], begin) == std::string::npos) return;
    const size_t first = find_arguments(*two, 0, begin);
    const size_t end = first + length_of_arguments(*two, first);
    const size_t name = find(*two, kNames[1], end);
    const size_t second = find_arguments(*two, 1, name);
    const size_t middle = name + kNames[1].size();
    if (two->substr(middle, second - middle) == form.middle)
      form.joint = two->substr(end, name - end);
  }

  static void hide_ids(std::string& text) {
    for (const std::string_view id : kIds)
      for (size_t at = text.find(id); at != std::string::npos; at = text.find(id))
        text.replace(at, id.size(), CallForm::kId);
  }

  const ChatTemplates& templates_;
  const Model& model_;
};

}  // namespace

CallForm find_call_form(const ChatTemplates& templates, const Model& model) {
  return Reader(templates, model).read();
}

CallForm find_call_form(const Model& model) {
  if (model.chat_templates() == nullptr)
    throw Error(ErrorKind::kUnsupported,
                "{}: calls of tools cannot be held to a form: it has no chat template",
                model.path());
  return find_call_form(*model.chat_templates(), model);
}

}  // namespace veery
