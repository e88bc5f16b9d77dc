// conversation.cc: checks that the chat template fits the tokenizer and renders conversations
// consistently.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "chat/chat.h"
#include "text/chat_template.h"
#include "verify/parts.h"

namespace veery {
namespace {

constexpr std::string_view kAnswer = "The answer is forty-two.";

Json message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

// A test conversation and its template. Finds out by trying which roles the template accepts.
class TestConversation {
 public:
  TestConversation(const Tokenizer& tokenizer, const std::string& source)
      : template_(source, "chat template"), special_(special_token_variables(tokenizer)) {
    const Json user = message("user", "What is it?");
    try {
      opening_ = Json::array({message("system", "Be brief."), user});
      render(opening_, true);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      refused_ = error.what();
      opening_ = Json::array({user});
      render(opening_, true);
    }
  }

  std::string render(const Json& messages, bool prompt) const {
    return template_.render(template_variables(special_, messages, prompt));
  }
  /// Returns the first `count` messages after the opening.
  Json messages(size_t count) const {
    Json all = opening_;
    all.push_back(message("assistant", kAnswer));
    all.push_back(message("user", "Why?"));
    Json result = Json::array();
    for (size_t i = 0; i < opening_.size() + count; ++i) result.push_back(all[i]);
    return result;
  }
  const std::string& refused() const { return refused_; }

 private:
  ChatTemplate template_;
  Json special_;
  Json opening_;
  std::string refused_;
};

// Finds markers such as <|im_start|>, which must be single tokens.
std::vector<std::string> marks_in(std::string_view text) {
  std::vector<std::string> marks;
  for (size_t at = 0; (at = text.find("<|", at)) != std::string_view::npos; at += 2) {
    const size_t end = text.find("|>", at + 2);
    if (end == std::string_view::npos || end - at > 40) continue;
    const std::string mark(text.substr(at, end + 2 - at));
    if (mark.find_first_of(" \n\t") == std::string::npos &&
        std::ranges::find(marks, mark) == marks.end())
      marks.push_back(mark);
  }
  return marks;
}

void check_bos(const Tokenizer& tokenizer, const std::string& text, Report& report) {
  const Tokenizer::Special& special = tokenizer.special();
  const std::vector<int32_t> ids = encode_prompt(tokenizer, text);
  const auto is_bos = [&](size_t i) { return i < ids.size() && ids[i] == special.bos; };
  if (special.bos < 0) return report.ok("single BOS", "the model has none");
  const bool adds = special.add_bos;
  const auto own = tokenizer.encode(text, {.add_special = false});
  const bool writes = !own.empty() && own.front() == special.bos;
  if (is_bos(0) && is_bos(1))
    report.add({"single BOS", CheckState::kFail, "prompts begin with BOS twice", "one BOS",
                "double BOS: the template writes it twice"});
  else if (writes && adds)
    report.ok("single BOS", "written by the template, so not added by the tokenizer");
  else
    report.ok("single BOS", writes ? "written by the template"
                            : adds ? "added by the tokenizer"
                                   : "not used");
}

void check_marks(const Tokenizer& tokenizer, const std::string& text, Report& report) {
  std::vector<std::string> cut;
  const std::vector<std::string> marks = marks_in(text);
  for (const std::string& mark : marks) {
    const auto ids = tokenizer.encode(mark, {.add_special = false});
    if (ids.size() != 1) cut.push_back(fmt::format("{} ({} tokens)", mark, ids.size()));
  }
  if (cut.empty())
    report.ok("template tokens",
              marks.empty() ? "none of the form <|...|>" : some_of(marks, 4) + ": one token each");
  else
    report.add({"template tokens", CheckState::kWarn, some_of(cut), "one token each",
                "template and tokenizer belong to different models"});
}

// The text that the template writes after an answer must contain a token that ends generation.
void check_end(const Tokenizer& tokenizer, const TestConversation& talk, Report& report) {
  const std::string text = talk.render(talk.messages(1), false);
  const size_t at = text.rfind(kAnswer);
  if (at == std::string::npos)
    return report.add({"end of turn", CheckState::kFail,
                       "the template omits the assistant's message", "its text", ""});
  const std::string rest = text.substr(at + kAnswer.size());
  const std::vector<int32_t> ids = tokenizer.encode(rest, {.add_special = false});
  const auto end = std::ranges::find_if(ids, [&](int32_t id) { return tokenizer.ends(id); });
  if (end != ids.end())
    report.ok("end of turn", tokenizer.token(*end));
  else if (rest.find_first_not_of(" \n") == std::string::npos)
    report.add({"end of turn", CheckState::kWarn, "the template writes nothing after an answer",
                "a token that ends an answer", "the model may not have learned to stop"});
  else
    report.add({"end of turn", CheckState::kWarn,
                fmt::format("the template writes {} after an answer", dump_json(rest)),
                "a token that ends an answer",
                "EOS differs from the token that ends a turn: answers will not stop"});
}

void check_growth(const TestConversation& talk, Report& report) {
  const std::string closed = talk.render(talk.messages(0), false);
  const std::string open = talk.render(talk.messages(0), true);
  if (!open.starts_with(closed))
    report.add({"generation prompt", CheckState::kWarn, "changes the text before it",
                "appended text only", "the prefix cache of a conversation cannot be reused"});
  else if (open == closed)
    report.add({"generation prompt", CheckState::kWarn, "add_generation_prompt changes nothing",
                "the beginning of an answer", "the model may continue the user's message"});
  else
    report.ok("generation prompt", dump_json(open.substr(closed.size())));
  const std::string longer = talk.render(talk.messages(2), false);
  const std::string shorter = talk.render(talk.messages(1), false);
  if (longer.starts_with(closed) && longer.starts_with(shorter))
    report.ok("turns", "a longer conversation extends the shorter one");
  else
    report.add({"turns", CheckState::kWarn, "a new turn changes the text before it",
                "appended text only", "each turn must be prefilled again from the change on"});
}

}  // namespace

void check_template(const Tokenizer& tokenizer, const std::string& source, Report& report) {
  if (source.empty()) return report.skip("chat template", "the model has none");
  if (tokenizer.size() == 0) return report.skip("chat template", "the model has no tokenizer");
  std::optional<TestConversation> talk;
  try {
    talk.emplace(tokenizer, source);
    talk->render(talk->messages(2), true);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    return report.add({"chat template", CheckState::kFail, error.what(),
                       "a conversation of system, user and assistant", ""});
  }
  report.ok("chat template", talk->refused().empty()
                                 ? "takes system, user and assistant"
                                 : "takes user and assistant, not system: " + talk->refused());
  const std::string text = talk->render(talk->messages(2), true);
  check_bos(tokenizer, text, report);
  check_marks(tokenizer, text, report);
  check_end(tokenizer, *talk, report);
  check_growth(*talk, report);
}

}  // namespace veery
