#include "text/grammar/schema/marked_values.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/answer/answer_writer.h"

namespace veery::schema {
namespace {

constexpr int64_t kMostCounted = 2500;  // limit of the states of an automaton that counts lengths

const CodeSet kEvery = complement_set({});
const CodeSet kSpace = normal_set({{' ', ' '}, {'\t', '\t'}, {'\n', '\n'}, {'\r', '\r'}});

// Returns any* part any*; a side that is not open has no any*.
Dfa around(const Dfa& part, bool open_before, bool open_after) {
  Nfa nfa;
  const int32_t start = nfa.add_state(), end = nfa.add_state();
  if (open_before) nfa.add_edge(start, kEvery, start);
  if (open_after) nfa.add_edge(end, kEvery, end);
  nfa.add_empty(start, nfa.add_dfa(part, end));
  return nfa.determinize(start, end, true);
}

// Returns texts that read_literal() may read as a literal other than a string.
Dfa literal_like() {
  Nfa nfa;
  const int32_t start = nfa.add_state(), rest = nfa.add_state(), word = nfa.add_state();
  const int32_t end = nfa.add_state();
  nfa.add_edge(start, kSpace, start);
  nfa.add_edge(start, normal_set({{'(', '('}, {'[', '['}, {'{', '{'}, {'-', '-'}, {'0', '9'}}),
               rest);
  nfa.add_edge(rest, kEvery, rest);
  nfa.add_empty(rest, end);
  nfa.add_empty(start,
                nfa.add_dfa(Dfa::words({"true", "True", "false", "False", "null", "None"}), word));
  nfa.add_edge(word, kSpace, word);
  nfa.add_empty(word, end);
  return nfa.determinize(start, end, true);
}

Dfa plain_names() {
  Nfa nfa;
  const int32_t start = nfa.add_state(), end = nfa.add_state();
  const CodeSet letters = normal_set({{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'_', '_'}, {'-', '-'}});
  nfa.add_edge(start, letters, end);
  nfa.add_edge(end, letters, end);
  return nfa.determinize(start, end, true);
}

Dfa texts_between(const MemberMarks& marks) {
  Dfa refused = Dfa::none();
  for (const std::string& stop : marks.stops)
    refused = unite(refused, around(Dfa::words({stop}), true, true));
  const Dfa line = Dfa::words({"\n"});
  if (marks.drops_first_break) refused = unite(refused, around(line, false, true));
  if (marks.drops_last_break) refused = unite(refused, around(line, true, false));
  return refused.complement();
}

}  // namespace

MarkLanguages::MarkLanguages(const MemberMarks& given)
    : marks(given),
      names(plain_names()),
      texts(texts_between(given)),
      unlike_literals(subtract(texts, literal_like())) {}

MarkedValues::MarkedValues(const MarkLanguages& languages, const Json& schema)
    : languages_(languages), marks_(languages.marks), schema_(schema) {}

bool MarkedValues::is_text(const std::string& name) const {
  return marks_.guesses() && takes_text(schema_, name);
}

std::string MarkedValues::name(const std::string& name) const {
  const bool plain = !name.empty() && name.find_first_of("<>\"\n\r") == std::string::npos &&
                     name.front() != ' ' && name.back() != ' ';
  if (!plain)
    throw Error(ErrorKind::kUnsupported, "calls of this model cannot hold the name '{}'",
                printable(name, 60));
  return terminal(marks_.key + name);
}

std::string MarkedValues::name(const Dfa& names, Rules& rules) const {
  return terminal(marks_.key) + " " + rules.language(names, Writing::kPlain);
}

std::string MarkedValues::text(const Dfa& texts, Rules& rules) const {
  return terminal(marks_.text) + " " + rules.language(texts, Writing::kPlain) + " " +
         terminal(marks_.end);
}

std::string MarkedValues::json(const std::string& value) const {
  return terminal(marks_.json) + " " + value + " " + terminal(marks_.end);
}

// A reader that guesses accepts any text as some value.
std::string MarkedValues::any(Rules& rules) const {
  const std::string text = this->text(languages_.texts, rules);
  return marks_.guesses() ? text : text + " | " + json(rules.any());
}

Dfa MarkedValues::texts(const StringForm& form, bool text) const {
  const Dfa& writable = text || !marks_.guesses() ? languages_.texts : languages_.unlike_literals;
  Dfa language = form.values ? Dfa::words(*form.values) : language_of(form);
  language = intersect(language, writable);
  return form.least > 0 || form.most >= 0 ? with_length(language, form.least, form.most) : language;
}

std::optional<std::string> MarkedValues::counted_text(const StringForm& form, bool text,
                                                      Rules& rules) const {
  const bool counted =
      (std::max(form.least, form.most) + 2) * std::ssize(languages_.texts.states()) > kMostCounted;
  const bool plain = !form.values && !form.language && form.formats.empty();
  if (!counted || !plain || (!text && marks_.guesses())) return {};
  CodeSet set = complement_set({{'<', '<'}});
  if (marks_.drops_first_break || marks_.drops_last_break)
    set = intersect_sets(set, complement_set({{'\n', '\n'}}));
  return terminal(marks_.text) + " " + rules.plain_of_length(set, form.least, form.most) + " " +
         terminal(marks_.end);
}

}  // namespace veery::schema
