#include "text/grammar/schema/plan.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"

namespace veery::schema {
namespace {

constexpr size_t kMostPlans = 20'000;
constexpr size_t kMostPatterns = 10, kMostRegions = 64;
constexpr size_t kMostFiniteNames = 256;
constexpr size_t kMostDistinct = 8;

int64_t sum(int64_t a, int64_t b) { return std::min(a + b, Plans::kNeverEnds); }
int64_t times(int64_t count, int64_t each) {
  if (count <= 0) return 0;
  return each >= Plans::kNeverEnds / count ? Plans::kNeverEnds : count * each;
}

// Returns whether no word of the language has a permitted length. Returns false for automata that
// are too large to check, which have words of most lengths.
bool is_empty(const StringForm& form) {
  const bool counted = form.least > 0 || form.most >= 0;
  if (form.values || (!form.language && form.formats.empty())) return false;
  const Dfa language = language_of(form);
  if (!counted || language.empty()) return language.empty();
  const int64_t lengths = std::max(form.least, form.most) + 2;
  return lengths * std::ssize(language.states()) < static_cast<int64_t>(Dfa::kMostStates) &&
         with_length(language, form.least, form.most).empty();
}

}  // namespace

Plans::Plans(const Json& schema) : meaning_(schema) {
  root_ = id_of(meaning_.root());
  for (PlanId id = 0; id < std::ssize(plans_); ++id) make(id);
  measure();
  if (!possible(root_))
    throw Error(
        ErrorKind::kInput,
        "schema: {} has no value: its keywords contradict each other, or it contains itself",
        blamed(root_));
  for (PlanId id = 0; id < std::ssize(plans_); ++id)
    if (possible(id) && size(id) > kLongest)
      throw Error(ErrorKind::kUnsupported, "schema: {} has no value of at most {} characters",
                  place(id), kLongest);
}

PlanId Plans::id_of(const Conjunction& conjunction) {
  const auto [place, fresh] = ids_.try_emplace(conjunction, static_cast<PlanId>(plans_.size()));
  if (fresh) {
    if (plans_.size() >= kMostPlans)
      throw Error(ErrorKind::kLimit, "schema: more than {} combinations of subschemas", kMostPlans);
    plans_.emplace_back();
    plans_.back().conjunction = conjunction;
  }
  return place->second;
}

void Plans::make(PlanId id) {
  Plan plan;
  plan.conjunction = plans_[static_cast<size_t>(id)].conjunction;
  plan.any = plan.conjunction.empty();
  try {
    for (const Form& form : plan.any ? Forms{} : simplified(meaning_.forms(plan.conjunction))) {
      const auto has = [&](uint8_t type) { return (form.types & type) != 0; };
      plan.types = static_cast<uint8_t>(plan.types | (form.types & (kNull | kTrue | kFalse)));
      if (has(kNumber)) plan.numbers.push_back(form.number);
      if (has(kString) && !is_empty(form.string)) plan.strings.push_back(form.string);
      if (has(kArray)) add_array(plan, form.array);
      if (has(kObject)) add_object(plan, form.object);
    }
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("schema: ")) throw;
    throw Error(error.kind(), "schema: {}: {}", meaning_.place(plan.conjunction), error.what());
  }
  plans_[static_cast<size_t>(id)] = std::move(plan);
}

// A counted item satisfies the subschema of `contains`; if there is an upper limit, an item that is
// not counted must not satisfy it.
std::vector<ArrayPlan::Item> Plans::items_of(const Conjunction& item, const ArrayForm& form) {
  std::vector<std::pair<Conjunction, std::vector<bool>>> items{{item, {}}};
  for (const ArrayForm::Contains& contains : form.contains) {
    Conjunction other;  // unrestricted unless there is an upper limit
    if (contains.most >= 0) {
      if (contains.item.size() > 1)
        throw Error(ErrorKind::kUnsupported, "contains with maxContains is not supported here");
      other = contains.item.empty() ? kNever : Conjunction{contains.item.front() ^ 1};
      if (contains.item == kNever) other = {};
    }
    std::vector<std::pair<Conjunction, std::vector<bool>>> next;
    for (const auto& [value, counted] : items)
      for (const bool counts : {true, false}) {
        std::vector<bool> flags = counted;
        flags.push_back(counts);
        next.emplace_back(both(value, counts ? contains.item : other), std::move(flags));
      }
    items = std::move(next);
    if (items.size() > 16) throw Error(ErrorKind::kLimit, "more than 4 contains are not supported");
  }
  std::vector<ArrayPlan::Item> result;
  for (auto& [value, counted] : items)
    if (value != kNever) result.push_back({id_of(value), std::move(counted)});
  return result;
}

std::vector<std::string> Plans::distinct_values(const Conjunction& item) {
  std::vector<std::string> values;
  bool endless = item.empty();
  for (const Form& form : meaning_.forms(item)) {
    bool finite = (form.types & (kArray | kObject)) == 0;
    if (form.types & kNull) values.emplace_back("null");
    if (form.types & kTrue) values.emplace_back("true");
    if (form.types & kFalse) values.emplace_back("false");
    if (form.types & kNumber) {
      if (form.number.values)
        for (const auto& [plain, written] : *form.number.values) values.push_back(written);
      else if (const auto words = form.number.language
                                      ? form.number.language->finite_words(kMostDistinct)
                                      : std::nullopt)
        values.insert(values.end(), words->begin(), words->end());
      else
        finite = false;
    }
    if (form.types & kString) {
      if (!form.string.values)
        finite = false;
      else
        for (const std::string& value : *form.string.values) values.push_back(dump_json(value));
    }
    if (!finite) endless = true;
  }
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  if (endless || values.size() > kMostDistinct)
    throw Error(ErrorKind::kUnsupported,
                "uniqueItems is not supported unless the items are at most {} constants",
                kMostDistinct);
  return values;
}

void Plans::add_array(Plan& plan, const ArrayForm& form) {
  ArrayPlan array;
  array.least = form.least, array.most = form.most;
  for (const ArrayForm::Contains& contains : form.contains)
    array.contains.push_back({contains.least, contains.most});
  for (const Conjunction& item : form.first) array.first.push_back(items_of(item, form));
  array.rest = items_of(form.rest, form);
  const bool several = form.most < 0 ? form.rest != kNever || form.first.size() > 1 : form.most > 1;
  if (form.unique && several) {
    if (!form.contains.empty() || !form.first.empty())
      throw Error(ErrorKind::kUnsupported,
                  "uniqueItems is not supported beside contains or leading items");
    array.distinct = distinct_values(form.rest);
    if (array.least > std::ssize(array.distinct)) return;
  }
  plan.arrays.push_back(std::move(array));
}

void Plans::add_object(Plan& plan, const ObjectForm& given) {
  ObjectForm form = given;
  if (!form.some.empty()) {
    // The rule requires a matching member. The grammar accepts only listed properties as that
    // member, although an unlisted one may match too.
    const ObjectForm::Rule some = form.some.back();
    form.some.pop_back();
    const size_t before = plan.objects.size();
    for (size_t i = 0; i < given.properties.size(); ++i) {
      if (!some.covers(given.properties[i].name)) continue;
      ObjectForm one = form;
      one.properties[i].required = true;
      one.properties[i].value = both(one.properties[i].value, some.value);
      if (one.properties[i].value != kNever) add_object(plan, one);
    }
    ObjectPlan open;
    add_regions(open, form);
    for (const ObjectPlan::Property& property : open.properties) {
      if (!some.covers(property.name)) continue;
      ObjectForm one = form;
      one.properties.push_back({.name = property.name, .value = some.value, .required = true});
      add_object(plan, one);
    }
    for (const ObjectPlan::Region& region : open.regions) {
      Dfa names = region.names;
      if (some.pattern) names = intersect(names, *some.pattern);
      for (const Language& pattern : some.but_patterns) names = subtract(names, *pattern);
      names = subtract(names, Dfa::words(some.but_names));
      if (names.empty()) continue;
      plan.objects.resize(before);
      throw Error(ErrorKind::kUnsupported,
                  "alternatives that differ in unlisted members are not supported; "
                  "set additionalProperties to false");
    }
    return;
  }
  ObjectPlan object;
  object.least = form.least, object.most = form.most;
  for (const ObjectForm::Property& property : form.properties) {
    Conjunction value = property.value;
    for (const ObjectForm::Rule& rule : form.rules)
      if (rule.covers(property.name)) value = both(value, rule.value);
    for (const Language& names : form.names)
      if (!names->accepts(property.name)) value = kNever;
    if (value == kNever && property.required) return;
    if (value != kNever)
      object.properties.push_back({property.name, id_of(value), property.required});
  }
  add_regions(object, form);
  plan.objects.push_back(std::move(object));
}

// Partitions the names without a listed property by the patterns that they match. A finite part
// becomes listed properties.
void Plans::add_regions(ObjectPlan& object, const ObjectForm& form) {
  std::vector<std::string> known;
  for (const ObjectForm::Property& property : form.properties) known.push_back(property.name);
  Dfa all = Dfa::words(known).complement();
  for (const Language& names : form.names) all = intersect(all, *names);
  std::vector<Language> patterns;
  const auto add_pattern = [&](const Language& pattern) {
    if (pattern && std::ranges::find(patterns, pattern) == patterns.end())
      patterns.push_back(pattern);
  };
  for (const ObjectForm::Rule& rule : form.rules) {
    add_pattern(rule.pattern);
    std::ranges::for_each(rule.but_patterns, add_pattern);
  }
  if (patterns.size() > kMostPatterns)
    throw Error(ErrorKind::kLimit, "more than {} patterns of names are not supported",
                kMostPatterns);
  // Members that a described object does not mention are valid but rarely useful: the grammar
  // writes them only if additionalProperties mentions them or minProperties needs them.
  const bool closed = form.described && form.least <= std::ssize(form.properties);
  std::map<Conjunction, Dfa> regions;
  size_t parts = 0;
  const std::function<void(size_t, const Dfa&, std::set<const Dfa*>&)> part =
      [&](size_t i, const Dfa& names, std::set<const Dfa*>& matched) {
        if (names.empty()) return;
        if (i < patterns.size()) {
          part(i + 1, subtract(names, *patterns[i]), matched);
          matched.insert(patterns[i].get());
          part(i + 1, intersect(names, *patterns[i]), matched);
          matched.erase(patterns[i].get());
          return;
        }
        if (++parts > kMostRegions)
          throw Error(ErrorKind::kLimit, "the patterns of names overlap in more than {} ways",
                      kMostRegions);
        Conjunction value;
        bool named = false;
        for (const ObjectForm::Rule& rule : form.rules) {
          const auto matches = [&](const Language& l) { return matched.contains(l.get()); };
          if (rule.pattern ? matches(rule.pattern)
                           : std::ranges::none_of(rule.but_patterns, matches))
            value = both(value, rule.value), named = true;
        }
        if (value == kNever || (closed && !named)) return;
        const auto [place, fresh] = regions.try_emplace(value, names);
        if (!fresh) place->second = unite(place->second, names);
      };
  std::set<const Dfa*> matched;
  part(0, all, matched);
  for (auto& [value, names] : regions) {
    if (const auto words = names.finite_words(kMostFiniteNames)) {
      for (const std::string& word : *words)
        object.properties.push_back({word, id_of(value), false});
    } else {
      object.regions.push_back({std::move(names), id_of(value)});
    }
  }
}

// Computes the least fixed point: recursive plans start as infinite, and each round finds the plans
// that end within one more level.
void Plans::measure() {
  sizes_.assign(plans_.size(), kNeverEnds);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = plans_.size(); i-- > 0;) {
      const int64_t now = measured(plans_[i]);
      changed = changed || now < sizes_[i];
      sizes_[i] = std::min(sizes_[i], now);
    }
  }
}

int64_t Plans::measured(const Plan& plan) const {
  if (plan.any || plan.types != 0 || !plan.numbers.empty()) return 1;
  int64_t size = kNeverEnds;
  for (const StringForm& string : plan.strings) {
    int64_t shortest = string.least;
    if (string.language)
      shortest = std::max(shortest, string.language->shortest().value_or(kNeverEnds));
    if (string.values && string.values->empty()) shortest = kNeverEnds;
    if (string.most >= 0 && shortest > string.most) shortest = kNeverEnds;
    size = std::min(size, sum(shortest, 2));
  }
  for (const ArrayPlan& array : plan.arrays) size = std::min(size, measured(array));
  for (const ObjectPlan& object : plan.objects) size = std::min(size, measured(object));
  return size;
}

int64_t Plans::measured(const ArrayPlan& array) const {
  const auto least = [&](const std::vector<ArrayPlan::Item>& items) {
    int64_t size = kNeverEnds;
    for (const ArrayPlan::Item& item : items) size = std::min(size, this->size(item.value));
    return size;
  };
  int64_t count = array.least;
  for (size_t c = 0; c < array.contains.size(); ++c) {
    // Maximum number of items that can be counted.
    int64_t most = 0;
    const auto counts = [&](const std::vector<ArrayPlan::Item>& items) {
      return std::ranges::any_of(items, [&](const ArrayPlan::Item& item) {
        return item.counted[c] && possible(item.value);
      });
    };
    for (const auto& items : array.first) most += counts(items) ? 1 : 0;
    if (counts(array.rest)) most = array.most < 0 ? kNeverEnds : std::max<int64_t>(array.most, 0);
    if (most < array.contains[c].least) return kNeverEnds;
    count = std::max(count, array.contains[c].least);
  }
  if (array.most >= 0 && count > array.most) return kNeverEnds;
  int64_t size = 2;
  const auto first = std::ssize(array.first);
  for (int64_t i = 0; i < std::min(first, count); ++i)
    size = sum(size, least(array.first[static_cast<size_t>(i)]));
  return sum(size, times(count - first, least(array.rest)));
}

int64_t Plans::measured(const ObjectPlan& object) const {
  int64_t size = 2, count = 0;
  std::vector<int64_t> optional;
  for (const ObjectPlan::Property& property : object.properties) {
    const int64_t each = sum(std::ssize(property.name) + 4, this->size(property.value));
    if (property.required)
      size = sum(size, each), ++count;
    else
      optional.push_back(each);
  }
  if (object.most >= 0 && count > object.most) return kNeverEnds;
  std::ranges::sort(optional);
  for (const int64_t each : optional)
    if (count < object.least) size = sum(size, each), ++count;
  if (count >= object.least) return size;
  int64_t open = kNeverEnds;
  for (const ObjectPlan::Region& region : object.regions)
    open = std::min(open, sum(4, this->size(region.value)));
  return sum(size, times(object.least - count, open));
}

// Returns the location of the innermost required part that has no value.
std::string Plans::blamed(PlanId id) const {
  std::set<PlanId> seen;
  for (bool deeper = true; deeper && seen.insert(id).second;) {
    deeper = false;
    const Plan& plan = this->plan(id);
    if (plan.objects.size() + plan.arrays.size() + plan.strings.size() != 1) break;
    for (const ObjectPlan& object : plan.objects)
      for (const ObjectPlan::Property& property : object.properties)
        if (!deeper && property.required && !possible(property.value))
          id = property.value, deeper = true;
  }
  return place(id);
}

}  // namespace veery::schema
