#include "text/grammar/schema/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "text/grammar/schema/plan.h"

namespace veery::schema {
namespace {

constexpr int64_t kMostStates = 20'000;  // per object or array that counts its members
// Compile time is quadratic in the number of states, and each property adds states.
constexpr int64_t kMostMembers = 1200;
constexpr size_t kMostLetters = size_t{1} << 16;  // bytes of names and values, for the same reason
constexpr int64_t kMostNeededNames = 6;  // distinct unlisted names that minProperties may need
constexpr const char* kComma = "\", \"";

std::string joined(const std::vector<std::string>& alternatives) {
  return fmt::format("{}", fmt::join(alternatives, " | "));
}

class Writer {
 public:
  /// `marks`: how the members of the root are written; null: as JSON. `marks` must outlive the
  /// writer.
  Writer(const Json& schema, const MarkedValues* marks, Rules& rules)
      : plans_(schema), rules_(rules), marks_(marks) {
    names_.resize(1);
  }

  std::string root() {
    const std::string name =
        marks_ == nullptr ? value(plans_.root()) : rules_.add(named(plans_.root(), [&] {
          return joined(marked_objects(plans_.plan(plans_.root())));
        }));
    for (size_t i = 0; i < todo_.size(); ++i) {
      const PlanId id = todo_[i];
      rules_.define(name_of(id), named_body(id));
    }
    return name;
  }

 private:
  std::string& name_of(PlanId id) {
    if (names_.size() <= static_cast<size_t>(id)) names_.resize(static_cast<size_t>(id) + 1);
    return names_[static_cast<size_t>(id)];
  }

  std::string value(PlanId id) {
    const Plan& plan = plans_.plan(id);
    if (plan.any) return rules_.any();
    std::string& name = name_of(id);
    if (!name.empty()) return name;
    // Scalars are not recursive, so their rule can be written at once and shared.
    if (plan.arrays.empty() && plan.objects.empty()) return name = rules_.add(named_body(id));
    todo_.push_back(id);
    return name = rules_.reserve();
  }

  std::string named_body(PlanId id) {
    return named(id, [&] { return alternatives(plans_.plan(id)); });
  }

  // Prepends the location of the plan to errors.
  template <typename Use>
  std::string named(PlanId id, const Use& use) {
    try {
      return use();
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with("schema: ")) throw;
      throw Error(error.kind(), "schema: {}: {}", plans_.place(id), error.what());
    }
  }

  std::string alternatives(const Plan& plan) {
    std::vector<std::string> all = other_alternatives(plan);
    for (const StringForm& string : plan.strings) add_string(string, all);
    return joined(all);
  }

  // Returns all alternatives except strings.
  std::vector<std::string> other_alternatives(const Plan& plan) {
    std::vector<std::string> all;
    for (const auto& [type, word] :
         {std::pair{kNull, "null"}, std::pair{kTrue, "true"}, std::pair{kFalse, "false"}})
      if (plan.types & type) all.push_back(fmt::format("\"{}\"", word));
    add_numbers(plan.numbers, all);
    for (const ArrayPlan& array : plan.arrays) add_array(array, all);
    for (const ObjectPlan& object : plan.objects) add_object(object, false, all);
    return all;
  }

  void add_numbers(const std::vector<NumberForm>& numbers, std::vector<std::string>& all) {
    std::optional<Dfa> language;
    NumberDigits digits;
    for (const NumberForm& number : numbers) {
      digits.whole = std::max(digits.whole, number.digits.whole);
      digits.decimals = std::max(digits.decimals, number.digits.decimals);
      if (number.values) {
        for (const auto& [plain, written] : *number.values) all.push_back(terminal(written));
      } else if (!number.language) {
        all.push_back(rules_.any_number());
        return;
      } else {
        language = language ? unite(*language, *number.language) : *number.language;
      }
    }
    if (language && !language->empty())
      all.push_back(rules_.language(spellings(*language, digits), Writing::kPlain));
  }

  void add_string(const StringForm& string, std::vector<std::string>& all) {
    if (string.values) {
      for (const std::string& value : *string.values) {
        count_letters(value);
        all.push_back(rules_.json(dump_json(Json(value))));
      }
      return;
    }
    if (!string.language && string.formats.empty()) {
      all.push_back(rules_.string_of_length(string.least, string.most));
      return;
    }
    Dfa language = language_of(string);
    if (string.least > 0 || string.most >= 0) {
      if (auto counted = counted_class(language, string.least, string.most)) {
        all.push_back(*counted);
        return;
      }
      language = with_length(language, string.least, string.most);
    }
    if (!language.empty())
      all.push_back("\"\\\"\" " + rules_.language(language, Writing::kJsonString));
  }

  // If the language is any repetition of one class, limits the length by a counted repetition
  // instead of an automaton.
  std::optional<std::string> counted_class(const Dfa& language, int64_t least, int64_t most) {
    if (language.states().size() > 2) return {};
    const size_t last = language.states().size() - 1;
    const auto& edges = language.states()[last].edges;
    if (!language.states()[last].accepts || edges.empty()) return {};
    for (const Dfa::Edge& edge : edges)
      if (static_cast<size_t>(edge.target) != last) return {};
    if (last == 1) {
      auto first = language.states()[0].edges;
      for (Dfa::Edge& edge : first)
        if (edge.target != 1) return {};
      if (first != edges || language.states()[0].accepts) return {};
      least = std::max<int64_t>(least, 1);
    }
    if (most >= 0 && least > most) return {};
    CodeSet set;
    for (const Dfa::Edge& edge : edges) set.push_back({edge.low, edge.high});
    return rules_.string_of_length(normal_set(set), least, most);
  }

  // -------------------------------------------------------------------------------------------
  // Arrays

  void add_array(const ArrayPlan& array, std::vector<std::string>& all) {
    if (!array.distinct.empty()) {
      std::map<uint32_t, std::string> used;
      return all.push_back("\"[\" " + distinct_rest(array, 0, used));
    }
    std::map<std::pair<int64_t, std::vector<int64_t>>, std::string> states;
    if (array.contains.empty() && array.first.empty()) return add_list(array, all);
    const std::string rest =
        array_rest(array, 0, std::vector<int64_t>(array.contains.size()), states);
    if (!rest.empty()) all.push_back("\"[\" " + rest);
  }

  std::string one_of(const std::vector<ArrayPlan::Item>& items) {
    std::vector<std::string> values;
    for (const ArrayPlan::Item& item : items)
      if (plans_.possible(item.value)) values.push_back(value(item.value));
    return values.empty() ? "" : values.size() == 1 ? values[0] : rules_.add(joined(values));
  }

  // All items have the same schema.
  void add_list(const ArrayPlan& array, std::vector<std::string>& all) {
    const std::string item = array.most == 0 ? "" : one_of(array.rest);
    if (array.most >= 0 && array.least > array.most) return;
    if (array.least == 0) all.push_back("\"[]\"");
    if (item.empty()) return;
    const int64_t least = std::max<int64_t>(array.least - 1, 0);
    all.push_back("\"[\" " + item + repeated(item, least, array.most < 0 ? -1 : array.most - 1) +
                  " \"]\"");
  }

  std::string repeated(const std::string& item, int64_t least, int64_t most) {
    if (most == 0) return "";
    const std::string more = " " + rules_.add(kComma + (" " + item));
    if (most < 0) return least == 0 ? more + "*" : more + fmt::format("{{{},}}", least);
    return more + fmt::format("{{{},{}}}", least, most);
  }

  // Returns the rule for the rest of an array after `count` items, of which counted[i] match the
  // i-th `contains`; empty if no array continues this way.
  std::string array_rest(const ArrayPlan& array, int64_t count, std::vector<int64_t> counted,
                         std::map<std::pair<int64_t, std::vector<int64_t>>, std::string>& states) {
    const auto first = std::ssize(array.first);
    if (array.contains.empty() && count == first) {
      const int64_t least = std::max<int64_t>(array.least - first, 0);
      const int64_t most = array.most < 0 ? -1 : array.most - first;
      const std::string item = most == 0 ? "" : one_of(array.rest);
      if (item.empty()) return least == 0 ? "\"]\"" : "";
      return repeated(item, least, most) + " \"]\"";
    }
    // Larger counts are equivalent.
    const int64_t same =
        std::max({first, array.least, array.most < 0 ? 0 : array.most + 1, int64_t{1}});
    count = std::min(count, same);
    for (size_t c = 0; c < counted.size(); ++c)
      counted[c] =
          std::min(counted[c], std::max(array.contains[c].least, array.contains[c].most + 1));
    const auto [place, fresh] = states.try_emplace({count, counted}, "");
    if (!fresh) return place->second;
    if (std::ssize(states) > kMostStates / 4)
      throw Error(ErrorKind::kLimit, "counting the items needs more than {} states",
                  kMostStates / 4);
    const std::string name = place->second = rules_.reserve();
    std::vector<std::string> all;
    bool enough = count >= array.least;
    for (size_t c = 0; c < counted.size(); ++c)
      enough = enough && counted[c] >= array.contains[c].least;
    if (enough) all.emplace_back("\"]\"");
    if (array.most < 0 || count < array.most)
      for (const ArrayPlan::Item& item :
           count < first ? array.first[static_cast<size_t>(count)] : array.rest) {
        if (!plans_.possible(item.value)) continue;
        std::vector<int64_t> next = counted;
        bool fits = true;
        for (size_t c = 0; c < next.size(); ++c) {
          next[c] += item.counted[c] ? 1 : 0;
          fits = fits && (array.contains[c].most < 0 || next[c] <= array.contains[c].most);
        }
        if (!fits) continue;
        const std::string rest = array_rest(array, count + 1, next, states);
        if (!rest.empty())
          all.push_back((count > 0 ? std::string(kComma) + " " : "") + value(item.value) + " " +
                        rest);
      }
    if (all.empty()) {
      // Unreachable, but the reserved name needs a definition.
      states[{count, counted}].clear();
      rules_.define(name, "\"]\"");
      return "";
    }
    rules_.define(name, joined(all));
    return name;
  }

  std::string distinct_rest(const ArrayPlan& array, uint32_t used,
                            std::map<uint32_t, std::string>& states) {
    const auto [place, fresh] = states.try_emplace(used, "");
    if (!fresh) return place->second;
    const std::string name = place->second = rules_.reserve();
    std::vector<std::string> all;
    const int64_t count = std::popcount(used);
    if (count >= array.least) all.emplace_back("\"]\"");
    for (size_t i = 0; i < array.distinct.size(); ++i)
      if ((used >> i & 1) == 0 && (array.most < 0 || count < array.most))
        all.push_back((count > 0 ? std::string(kComma) + " " : "") +
                      rules_.json(array.distinct[i]) + " " +
                      distinct_rest(array, used | 1U << i, states));
    rules_.define(name, joined(all));
    return name;
  }

  void count_letters(std::string_view text) {
    letters_ += text.size();
    if (letters_ > kMostLetters)
      throw Error(ErrorKind::kLimit, "names and values exceed {} bytes", kMostLetters);
  }

  // -------------------------------------------------------------------------------------------
  // Objects

  struct Members {
    bool marked = false;                           ///< written between marks
    std::string end;                               ///< terminal after the last member
    std::vector<ObjectPlan::Property> properties;  ///< satisfiable ones
    std::vector<int64_t> required;                 ///< by i: how many from i on are required
    std::vector<const ObjectPlan::Region*> regions;
    int64_t least = 0, most = -1, same = 1;  ///< counts above `same` are equivalent
    int64_t classes = 1;                     ///< number of classes of unlisted names
    std::map<std::tuple<size_t, int64_t, uint32_t>, std::string> states;
  };

  std::vector<std::string> marked_objects(const Plan& plan) {
    std::vector<std::string> all;
    for (const ObjectPlan& object : plan.objects) add_object(object, true, all);
    if (all.empty()) throw Error(ErrorKind::kInput, "expected a schema that accepts an object");
    return all;
  }

  void add_object(const ObjectPlan& object, bool marked, std::vector<std::string>& all) {
    Members members;
    members.marked = marked;
    members.end = marked ? "\"\"" : "\"}\"";
    for (const ObjectPlan::Property& property : object.properties) {
      if (plans_.possible(property.value))
        members.properties.push_back(property);
      else if (property.required)
        return;
    }
    for (const ObjectPlan::Region& region : object.regions)
      if (plans_.possible(region.value)) members.regions.push_back(&region);
    members.required.assign(members.properties.size() + 1, 0);
    for (size_t i = members.properties.size(); i-- > 0;)
      members.required[i] = members.required[i + 1] + (members.properties[i].required ? 1 : 0);
    member_count_ += std::ssize(members.properties);
    if (member_count_ > kMostMembers)
      throw Error(ErrorKind::kLimit, "the objects have more than {} properties", kMostMembers);
    const int64_t required = members.required[0];
    members.least = std::max(object.least, required);
    members.most = object.most;
    if (members.most >= 0 && members.least > members.most) return;
    if (members.least == required) members.least = 0;  // the required ones suffice
    members.same = std::max<int64_t>({members.least, members.most + 1, 1});
    // Up to this many unlisted names have to be distinct.
    if (!members.regions.empty()) members.classes = std::max<int64_t>(members.least - required, 1);
    if (members.classes > kMostNeededNames)
      throw Error(ErrorKind::kLimit, "minProperties needs more than {} unlisted names",
                  kMostNeededNames);
    if (members.same * std::ssize(members.properties) > kMostStates)
      throw Error(ErrorKind::kLimit, "counting the members needs more than {} states", kMostStates);
    if (const std::string rest = object_state(members, 0, 0, 0); !rest.empty())
      all.push_back(marked ? rest : "\"{\" " + rest);
  }

  // Returns the rule for the rest of an object after `count` members, starting at property i.
  // `used` is the set of name classes taken by unlisted members. Empty if no object continues this
  // way.
  std::string object_state(Members& members, size_t i, int64_t count, uint32_t used) {
    count = std::min(count, members.same);
    if (members.classes == 1 || count >= members.least) used = 0;
    const auto [place, fresh] = members.states.try_emplace({i, count, used}, "");
    if (!fresh) return place->second;
    if (std::ssize(members.states) > kMostStates)
      throw Error(ErrorKind::kLimit, "counting the members needs more than {} states", kMostStates);
    const std::string name = i < members.properties.size() ? "" : rules_.reserve();
    if (!name.empty()) members.states[{i, count, used}] = name;
    const std::vector<std::string> all = i < members.properties.size()
                                             ? property_state(members, i, count, used)
                                             : region_state(members, count, used);
    if (all.empty()) {
      if (!name.empty()) members.states[{i, count, used}].clear(), rules_.define(name, members.end);
      return "";
    }
    if (!name.empty()) {
      rules_.define(name, joined(all));
      return name;
    }
    const bool plain = all.size() == 1;
    return members.states[{i, count, used}] = plain ? all[0] : rules_.add(joined(all));
  }

  std::vector<std::string> property_state(Members& members, size_t i, int64_t count,
                                          uint32_t used) {
    const ObjectPlan::Property& property = members.properties[i];
    count_letters(property.name);
    std::vector<std::string> all;
    if (members.most < 0 ||
        count + members.required[i] + (property.required ? 0 : 1) <= members.most) {
      const std::string rest = object_state(members, i + 1, count + 1, used);
      if (!rest.empty()) all.push_back(property_member(members, property, count) + " " + rest);
    }
    if (property.required) return all;
    const std::string without = object_state(members, i + 1, count, used);
    if (!without.empty()) all.push_back(without);
    return all;
  }

  std::string property_member(const Members& members, const ObjectPlan::Property& property,
                              int64_t count) {
    if (!members.marked)
      return rules_.json((count > 0 ? ", " : "") + dump_json(Json(property.name)) + ": ") + " " +
             value(property.value);
    return marks_->name(property.name) + " " +
           marked_value(property.value, marks_->is_text(property.name));
  }

  // `text`: the reader takes the value as a string whatever it looks like.
  std::string marked_value(PlanId id, bool text) {
    const Plan& plan = plans_.plan(id);
    std::vector<std::string> all;
    if (plan.any) {
      all.push_back(marks_->any(rules_));
    } else {
      Dfa strings = Dfa::none();
      for (const StringForm& string : plan.strings) {
        if (std::optional<std::string> counted = marks_->counted_text(string, text, rules_))
          all.push_back(*counted);
        else
          strings = unite(strings, marks_->texts(string, text));
      }
      if (!strings.empty()) all.push_back(marks_->text(strings, rules_));
      const std::vector<std::string> others =
          text ? std::vector<std::string>{} : other_alternatives(plan);
      if (!others.empty()) all.push_back(marks_->json(rules_.add(joined(others))));
    }
    if (all.empty())
      throw Error(ErrorKind::kUnsupported, "{}: calls of this model cannot hold any of its values",
                  plans_.place(id));
    return rules_.add(joined(all));
  }

  std::vector<std::string> region_state(Members& members, int64_t count, uint32_t used) {
    std::vector<std::string> all;
    if (count >= members.least) all.push_back(members.end);
    if (members.regions.empty() || (members.most >= 0 && count >= members.most)) return all;
    const std::string comma = count > 0 && !members.marked ? std::string(kComma) + " " : "";
    // The names that are still needed come from distinct classes, so that they cannot be equal.
    const bool apart = count < members.least && (used != 0 || members.least - count > 1);
    for (int64_t c = 0; c < (apart ? members.classes : 1); ++c) {
      if (apart && (used >> c & 1) != 0) continue;
      const std::string member = region_member(members, apart ? c : -1);
      if (member.empty()) continue;
      const std::string rest = object_state(members, members.properties.size(), count + 1,
                                            apart ? used | 1U << c : used);
      if (!rest.empty()) all.push_back(comma + member + " " + rest);
    }
    return all;
  }

  // An unlisted member. name_class >= 0 restricts its name to one class.
  std::string region_member(const Members& members, int64_t name_class) {
    std::vector<std::string> all;
    for (const ObjectPlan::Region* region : members.regions) {
      Dfa names = region->names;
      if (name_class >= 0) names = intersect(names, names_of_class(members.classes, name_class));
      if (members.marked) names = intersect(names, marks_->names());
      if (names.empty()) continue;
      if (members.marked) {
        all.push_back(marks_->name(names, rules_) + " " + marked_value(region->value, false));
        continue;
      }
      const std::string name = names.is_all()
                                   ? rules_.any_string()
                                   : "\"\\\"\" " + rules_.language(names, Writing::kJsonString);
      all.push_back(name + " \": \" " + value(region->value));
    }
    return all.empty() ? "" : rules_.add(joined(all));
  }

  // Classes by the sum of the ASCII code points modulo `classes`, so that similar names are in
  // different classes.
  static Dfa names_of_class(int64_t classes, int64_t name_class) {
    std::vector<Dfa::State> states(static_cast<size_t>(classes));
    for (int64_t from = 0; from < classes; ++from) {
      Dfa::State& state = states[static_cast<size_t>(from)];
      state.accepts = from == name_class;
      for (char32_t code = 0; code < 0x80; ++code)
        state.edges.push_back({code, code, static_cast<int32_t>((from + code) % classes)});
      for (const CodeRange& range : complement_set({{0, 0x7F}}))
        state.edges.push_back({range.low, range.high, static_cast<int32_t>(from)});
    }
    return Dfa::minimal(std::move(states));
  }

  Plans plans_;
  Rules& rules_;
  const MarkedValues* marks_;
  int64_t member_count_ = 0;  ///< in all objects
  size_t letters_ = 0;        ///< limited by kMostLetters
  std::vector<std::string> names_;
  std::vector<PlanId> todo_;
};

}  // namespace

std::string add_schema(const Json& schema, Rules& rules) {
  return Writer(schema, nullptr, rules).root();
}

std::string add_members(const Json& schema, const MarkLanguages& languages, Rules& rules) {
  const MarkedValues values(languages, schema);
  return Writer(schema, &values, rules).root();
}

}  // namespace veery::schema
