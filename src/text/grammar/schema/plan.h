// plan.h: the plan of a schema's grammar: for each conjunction its alternatives by type.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "text/grammar/schema/meaning.h"

namespace veery::schema {

/// Index into the plans of Plans.
using PlanId = int32_t;

struct ArrayPlan {
  struct Contains {
    int64_t least = 1, most = -1;
  };
  /// An item schema; `counted[i]` says whether its values count for `contains[i]`.
  struct Item {
    PlanId value = 0;
    std::vector<bool> counted;
  };
  std::vector<std::vector<Item>> first;  ///< alternatives for each leading item
  std::vector<Item> rest;                ///< alternatives for all further items
  int64_t least = 0, most = -1;
  std::vector<Contains> contains;
  /// If not empty, the items are distinct members of this list of JSON texts.
  std::vector<std::string> distinct;
};

struct ObjectPlan {
  struct Property {
    std::string name;
    PlanId value = 0;
    bool required = false;
  };
  /// Members with any name of a language that contains no name of a property.
  struct Region {
    Dfa names;
    PlanId value = 0;
  };
  std::vector<Property> properties;
  std::vector<Region> regions;
  int64_t least = 0, most = -1;
};

/// The alternatives of one conjunction.
struct Plan {
  Conjunction conjunction;
  bool any = false;   ///< any JSON value
  uint8_t types = 0;  ///< unconstrained types and constants
  std::vector<NumberForm> numbers;
  std::vector<StringForm> strings;
  std::vector<ArrayPlan> arrays;
  std::vector<ObjectPlan> objects;
};

/// The plans of all conjunctions reachable from the root of a schema.
class Plans {
 public:
  /// Throws as Meaning does, kInput with the location if no value satisfies the schema, and
  /// kUnsupported if the shortest value exceeds kLongest characters.
  explicit Plans(const Json& schema);

  PlanId root() const { return root_; }
  const Plan& plan(PlanId id) const { return plans_[static_cast<size_t>(id)]; }
  /// Returns a lower bound of the length of the shortest value in characters; kNeverEnds if no
  /// value is finite.
  int64_t size(PlanId id) const { return sizes_[static_cast<size_t>(id)]; }
  bool possible(PlanId id) const { return size(id) < kNeverEnds; }
  std::string place(PlanId id) const { return meaning_.place(plan(id).conjunction); }

  static constexpr int64_t kNeverEnds = int64_t{1} << 60, kLongest = 1 << 20;

 private:
  PlanId id_of(const Conjunction& conjunction);
  void make(PlanId id);
  void add_array(Plan& plan, const ArrayForm& form);
  std::vector<ArrayPlan::Item> items_of(const Conjunction& item, const ArrayForm& form);
  std::vector<std::string> distinct_values(const Conjunction& item);
  void add_object(Plan& plan, const ObjectForm& form);
  void add_regions(ObjectPlan& object, const ObjectForm& form);
  void measure();
  int64_t measured(const Plan& plan) const;
  int64_t measured(const ArrayPlan& array) const;
  int64_t measured(const ObjectPlan& object) const;
  std::string blamed(PlanId id) const;

  Meaning meaning_;
  std::vector<Plan> plans_;
  std::vector<int64_t> sizes_;
  std::map<Conjunction, PlanId> ids_;
  PlanId root_ = 0;
};

}  // namespace veery::schema
