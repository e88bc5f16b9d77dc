// form.h: what a value may be, as a union of forms; a form has one constraint for each JSON type.
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

/// A conjunction of literals, sorted. A literal 2 n says that subschema n holds, 2 n + 1 that it
/// does not; subschema 0 is true, so {} holds always and {1} never.
using Conjunction = std::vector<int32_t>;
inline const Conjunction kNever{1};
/// Returns kNever if a literal and its opposite are among those of `a` and `b`.
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
  Language language;  ///< of plain spellings
  /// The only values, by their plain spellings, as they are written.
  std::optional<std::vector<std::pair<std::string, std::string>>> values;
  NumberDigits digits;
};

struct StringForm {
  Language language;
  int64_t least = 0, most = -1;  ///< code points; most < 0: no upper limit
  std::optional<std::vector<std::string>> values;
  std::vector<Language> formats;  ///< annotations (2020-12) that restrict what is generated
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
  /// Values of all members whose name is in `pattern`, or in neither of the others.
  struct Rule {
    Language pattern;  ///< null: all names but
    std::vector<std::string> but_names;
    std::vector<Language> but_patterns;
    Conjunction value;
    bool covers(const std::string& name) const;
  };
  std::vector<Property> properties;
  std::vector<Rule> rules;
  std::vector<Rule> some;       ///< for each of these, one member at least
  std::vector<Language> names;  ///< all names are in each of these
  int64_t least = 0, most = -1;
  bool described = false;  ///< by properties or patternProperties

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

/// Returns the values of both; types is 0 if that is known to be nothing.
Form both(const Form& a, const Form& b);

/// The texts of a string form without its length. Formats restrict it unless it has values.
Dfa language_of(const StringForm& form);
/// Whether a text is of the form, formats aside.
bool holds(const StringForm& form, const std::string& text);

}  // namespace veery::schema
