#include "plan/workspace.h"

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace veery {

size_t Arena::bytes() const {
  const std::lock_guard turn(*turn_);
  return block_.size();
}

// Gives the block the size of the largest demand. The old block goes first, as there may not be
// memory for both.
void Arena::fit() {
  const size_t wanted = demands_.empty() ? 0 : *demands_.rbegin();
  if (block_.size() == wanted) return;
  ++version_;
  block_ = Memory();
  if (wanted > 0) block_ = device_.reserve(wanted);
}

std::byte* Arena::require(size_t& demand, size_t size) {
  const std::lock_guard turn(*turn_);
  if (size > demand) {
    demands_.insert(size);
    try {
      fit();
    } catch (...) {
      demands_.erase(demands_.find(size));
      throw;
    }
    if (demand > 0) demands_.erase(demands_.find(demand));
    demand = size;
  }
  fit();  // the block is missing after a failure
  return block_.data();
}

void Arena::withdraw(size_t demand) noexcept {
  if (demand == 0) return;
  const std::lock_guard turn(*turn_);
  demands_.erase(demands_.find(demand));
  try {
    fit();
  } catch (...) {  // the next require() tries again
  }
}

void sort_arenas(std::vector<Arena*>& arenas) {
  const auto turn = [](const Arena* arena) { return &arena->turn(); };
  std::ranges::sort(arenas, std::less<>(), turn);
  const auto same = std::ranges::unique(arenas, {}, turn);  // it is enough to lock one of them
  arenas.erase(same.begin(), same.end());
}

std::byte* Workspace::results(size_t size) {
  if (size == 0) return nullptr;
  if (results_.empty() || results_.back().size() < size)
    results_.push_back(arena_->device_.reserve(size));
  return results_.back().data();
}

void Workspace::reserve(const WorkspaceBytes& bytes) {
  if (bytes.values > 0) values(bytes.values);
  if (bytes.results > 0) results(bytes.results);
}

WorkspaceBytes Workspace::bytes() const {
  WorkspaceBytes bytes{.values = demand_};
  for (const Memory& block : results_) bytes.results += block.size();
  return bytes;
}

}  // namespace veery
