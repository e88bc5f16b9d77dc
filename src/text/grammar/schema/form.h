// form.h: the set of values of a schema as a union of forms. A form has one constraint per JSON
// type.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/grammar/language/automaton.h"
#include "text/grammar/language/number_language.h"

namespace veery::schema {

using Language = std::shared_ptr<const Dfa>;  ///< null: all texts, or all numbers

/// A sorted conjunction of literals. Literal 2n says that subschema n holds, literal 2n + 1 that it
/// does not. Subschema 0 is true, so {} always holds and {1} never does.
using Conjunction = std::vector<int32_t>;
inline const Conjunction kNever{1};
/// Returns the union of the literals, or kNever if it contains a literal and its negation.
Conjunction both(const Conjunction& a, const Conjunction& b);

enum TypeBit : uint8_t {
  kNull = 1,
  kFalse = 2,
  kTrue = 4,
  kNumber = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAllTypes = 127,
};

struct NumberForm {
  Language language;  ///< plain spellings of the numbers
  /// If set, the only values: pairs of plain spelling and spelling in the schema.
  std::optional<std::vector<std::pair<std::string, std::string>>> values;
  NumberDigits digits;
};

struct StringForm {
  Language language;
  int64_t least = 0, most = -1;  ///< length in code points; most < 0: unbounded
  std::optional<std::vector<std::string>> values;
  std::vector<Language> formats;  ///< annotations (2020-12) that restrict generated strings
};

struct ArrayForm {
  struct Contains {
    Conjunction item;
    int64_t least = 1, most = -1;
    friend bool operator==(const Contains&, const Contains&) = default;
  };
  std::vector<Conjunction> first;
  Conjunction rest;
  int64_t least = 0, most = -1;
  std::vector<Contains> contains;
  bool unique = false;
};

struct ObjectForm {
  struct Property {
    std::string name;
    Conjunction value;
    bool required = false;
  };
  /// Constrains the values of members whose name matches `pattern` and is in neither exclusion
  /// list.
  struct Rule {
    Language pattern;  ///< null: all names except the excluded ones
    std::vector<std::string> but_names;
    std::vector<Language> but_patterns;
    Conjunction value;
    bool covers(const std::string& name) const;
  };
  std::vector<Property> properties;
  std::vector<Rule> rules;
  std::vector<Rule> some;       ///< each requires at least one matching member
  std::vector<Language> names;  ///< every name belongs to each of these languages
  int64_t least = 0, most = -1;
  bool described = false;  ///< has properties or patternProperties

  Property* find(const std::string& name);
  void require(const std::string& name);
};

struct Form {
  uint8_t types = kAllTypes;
  NumberForm number;
  StringForm string;
  ArrayForm array;
  ObjectForm object;
};

/// Returns the intersection; `types` is 0 if it is known to be empty.
Form both(const Form& a, const Form& b);

/// Returns the strings of a form, ignoring its length limits. Formats apply unless the form lists
/// its values.
Dfa language_of(const StringForm& form);
/// Returns whether a text satisfies the form, ignoring formats.
bool holds(const StringForm& form, const std::string& text);

}  // namespace veery::schema
