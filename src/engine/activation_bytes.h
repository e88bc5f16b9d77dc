// activation_bytes.h: bytes of activations, counting the arenas that users share once.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "plan/placement.h"
#include "plan/workspace.h"

namespace veery {

/// Bytes of the activations of one or several users of plans.
struct ActivationBytes {
  size_t results = 0;  ///< each user's own
  /// Bytes of arenas by device (Device::description()): the largest demand of a user.
  std::map<std::string, size_t> arenas;

  size_t total() const {
    size_t bytes = results;
    for (const auto& [device, size] : arenas) bytes += size;
    return bytes;
  }
  void add(const Place& place, const WorkspaceBytes& bytes) {
    results += bytes.results;
    size_t& arena = arenas[place.backend->device().description()];
    arena = std::max(arena, bytes.values);
  }
  /// Adds those of a user of the same executor.
  void add(const ActivationBytes& other) {
    results += other.results;
    for (const auto& [device, size] : other.arenas) arenas[device] = std::max(arenas[device], size);
  }
  /// Adds those of a user of another executor.
  void add_separate(const ActivationBytes& other) { results += other.total(); }
  bool operator==(const ActivationBytes&) const = default;
};

}  // namespace veery
