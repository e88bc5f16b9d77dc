// meaning.h: the values that satisfy a conjunction of subschemas, as a union of forms.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/grammar/schema/document.h"
#include "text/grammar/schema/form.h"

namespace veery::schema {

using Forms = std::vector<Form>;

/// Interprets the keywords of a document: JSON Schema 2020-12, and the keywords of drafts 4 to 7
/// that differ. All functions throw kInput for a malformed keyword, kUnsupported for one that
/// cannot be enforced and kLimit for a schema that is too large; the message names the location.
class Meaning {
 public:
  explicit Meaning(const Json& root);

  /// The conjunction that says that the root schema holds.
  Conjunction root() { return literal(document_.root(), true); }
  const Forms& forms(const Conjunction& conjunction);
  /// Returns the location of a subschema of the conjunction, for messages.
  std::string place(const Conjunction& conjunction) const;
  /// Returns the strings that satisfy a conjunction, ignoring formats.
  Dfa strings(const Conjunction& conjunction);
  Language pattern(const std::string& text);

 private:
  Conjunction literal(const Json& node, bool holds);
  const Forms& literal_forms(int32_t literal);
  Forms compute(const Json& node, bool holds);
  Forms holding(const Json& node);
  Forms failing(const Json& node);
  template <typename Use>
  auto named(const Json& node, std::string_view keyword, const Use& use);

  // The functions below return the forms of one keyword together with its related keywords.
  // Defined in meaning_values.cc:
  Forms of_type(const Json& value, bool holds);
  Forms of_values(const Json& values, bool holds);
  Forms of_number(const Json& node, std::string_view keyword, bool holds);
  Forms of_string(const Json& node, std::string_view keyword, bool holds);
  const Json& composite(const Json& value);
  // Defined in meaning_containers.cc:
  Forms of_object(const Json& node, std::string_view keyword, bool holds);
  Forms of_properties(const Json& node, bool holds);
  Forms of_dependencies(const Json& dependencies, bool holds);
  Forms of_array(const Json& node, std::string_view keyword, bool holds);
  Forms of_items(const Json& node, bool holds);
  Forms of_contains(const Json& node, bool holds);
  Forms of_unevaluated(const Json& node, std::string_view keyword, bool holds);
  struct Evaluated;
  void collect_evaluated(const Json& node, Evaluated& found, int depth);
  ObjectForm::Rule others(const Json& node, Conjunction value);
  // Defined in meaning.cc:
  Forms of_applicator(const Json& node, std::string_view keyword, bool holds);
  Forms of_one(const Json& alternatives, bool holds);
  Forms of_condition(const Json& node, bool holds);
  Forms of_all(const Json& parts, bool all, bool holds);

  Forms intersect_forms(const Forms& a, const Forms& b);
  bool may_hold(const Forms& forms, int depth);
  bool may_hold(const Conjunction& conjunction, int depth);
  bool may_hold(const Form& form, int depth);
  bool may_hold_array(const ArrayForm& form, int depth);
  bool may_hold_object(const ObjectForm& form, int depth);
  void spend(size_t forms);

  Document document_;
  std::deque<Json> made_;  ///< generated subschemas for constants
  std::vector<const Json*> subschemas_{nullptr};
  std::unordered_map<const Json*, int32_t> numbers_;
  std::unordered_map<int32_t, Forms> literal_forms_;
  std::unordered_set<int32_t> open_;  ///< literals under evaluation, to detect recursion
  std::map<Conjunction, Forms> forms_;
  std::map<std::string, Language> patterns_;
  std::unordered_map<const Json*, const Json*> composites_;
  size_t spent_ = 0;
};

/// Splits the union so that every unconstrained type occurs in one form only.
Forms simplified(Forms forms);
void append_forms(Forms& to, Forms from);
/// Returns the non-negative integer of a count keyword (minLength ...). Throws kInput.
int64_t count_of(const Json& value);
/// Upper limits of at least this value are treated as unbounded, since no answer reaches them.
inline constexpr int64_t kNoLimit = int64_t{1} << 30;

}  // namespace veery::schema
