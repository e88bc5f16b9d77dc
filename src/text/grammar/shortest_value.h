// shortest_value.h: how long the shortest value is that a JSON schema holds.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>

#include "base/json.h"

namespace veery {

/// Of a schema whose nodes check_schema() has looked at, and which must outlive it. Counts what a
/// grammar has to write at least: characters of constants, required names and least numbers of
/// items, references followed. A bound from below, as patterns and numbers count as one character.
class ShortestValue {
 public:
  explicit ShortestValue(const Json& root) : root_(root) {}

  /// Of a node of the schema; kNever: it is part of itself, and no value ends. Throws kLimit where
  /// references are so entangled that it takes too long.
  int64_t of(const Json& node);

  static constexpr int64_t kNever = int64_t{1} << 60;

 private:
  int64_t as_known(const Json& node);
  const Json* target(std::string_view reference) const;
  int64_t of_reference(const Json& node);
  int64_t of_type(const Json& node, std::string_view type);
  int64_t of_object(const Json& node);
  int64_t of_array(const Json& node);

  const Json& root_;
  std::map<const Json*, int64_t> targets_;  ///< of references, and what is known of them yet
  int64_t work_ = 0;
};

}  // namespace veery
