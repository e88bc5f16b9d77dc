// states.h: the memory of KV caches (pages) and recurrent states (blocks), in page groups of layers
// with the same window.
#pragma once
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "device/memory.h"
#include "graph/graph.h"
#include "plan/placement.h"

namespace veery {

struct StateOptions {
  DType keys = DType::kF16;    ///< kF32, kF16, kBF16 or kQ8_0
  DType values = DType::kF16;  ///< the same
  int32_t context = 4096;      ///< positions of one sequence
  int32_t rows = 512;     ///< the most rows of a run; a ring of pages holds the windows of all rows
  int32_t sequences = 1;  ///< the most sequences, each with its page tables
  /// Number of sequences with encoder output of their own; others can share it. 0: all.
  int32_t sources = 0;
  int32_t positions = 0;  ///< of all sequences together; 0: enough for all to fill their context
  int32_t kept = 1;       ///< recurrent states of recent positions per sequence, 1 or more
  /// Snapshots of all sequences together. Reduced to what fits in kSnapshotBytes, but not below
  /// two.
  int32_t snapshots = 0;
  /// Place::first_layer of each place; empty: there is one.
  std::vector<int32_t> first_layers = {};
};
inline constexpr size_t kSnapshotBytes = size_t{512} << 20;

/// The sizes and offsets of all states of a graph, without their memory. A StateStore with the same
/// options allocates exactly these.
///
/// All layers with the same window form a page group with one page table per sequence: page i of
/// the group is page i of each of its layers. All blocks of recurrent layers form another group, in
/// which a sequence has StateOptions::kept blocks.
class StateLayout {
 public:
  struct Group {
    bool blocks = false;    ///< each page is one block
    int32_t source = 0;     ///< StateAttr::source: encoder output, written as a whole
    int32_t window = 0;     ///< sliding window in positions; 0: grows with the sequence
    int32_t pages = 0;      ///< of all sequences and snapshots
    int32_t ring = 0;       ///< most pages of one sequence
    int32_t saved = 0;      ///< most pages of one snapshot
    size_t page_bytes = 0;  ///< bytes of a page, summed over all layers
    bool grows() const { return !blocks && source == 0 && window == 0; }
  };
  struct State {
    Operand operand;    ///< without its address
    size_t place = 0;   ///< index of StateOptions::first_layers
    size_t offset = 0;  ///< bytes from the beginning of its place's memory
  };

  /// Throws kUnsupported for other cache types, or for kQ8_0 if head_dim is not a multiple of 32;
  /// kInput for options out of range; kLimit if there are more pages than an int32_t can count.
  StateLayout(const Graph& graph, const StateOptions& options);

  const StateOptions& options() const { return options_; }
  const std::vector<Group>& groups() const { return groups_; }
  const std::map<std::string, State>& states() const { return states_; }
  /// Number of snapshots with memory; 0 if the graph never needs one.
  int32_t snapshots() const { return snapshots_; }
  /// Bytes of each place.
  std::span<const size_t> place_bytes() const { return place_bytes_; }
  size_t bytes() const { return std::reduce(place_bytes_.begin(), place_bytes_.end()); }
  /// Bytes of one more page in all caches that grow; 0 if none grows.
  size_t growing_page_bytes() const;

 private:
  int find_group(const StateAttr& attr);
  void size_groups();
  void describe(const Node& node);

  StateOptions options_;
  int32_t snapshots_ = 0;
  std::vector<Group> groups_;
  std::map<std::string, State> states_;
  std::vector<size_t> place_bytes_;
};

/// The memory of a StateLayout. Address space is reserved at construction; the system provides
/// memory when a page is first written.
class StateStore {
 public:
  using Group = StateLayout::Group;

  /// `devices`: the device of each place, which must outlive the store; empty: the host. Throws as
  /// StateLayout does.
  StateStore(const Graph& graph, const StateOptions& options,
             std::span<Device* const> devices = {});

  const Operand& at(const std::string& name) const;
  /// Copies page `from` to page `to` in every layer of the group.
  void copy_page(int group, int32_t from, int32_t to);
  /// Reads a page of all layers of its group, Group::page_bytes in the order of the states' names.
  /// Positions after the first `positions` are read as zeros, because earlier sequences may have
  /// written them. Blocks are read as they are.
  void read_page(int group, int32_t page, int64_t positions, std::span<std::byte> out) const;
  /// Writes a page as read_page() returns it.
  void write_page(int group, int32_t page, std::span<const std::byte> bytes);
  /// Returns the names, types and sizes of all states as text. Pages can be exchanged between
  /// stores with the same text.
  std::string layout() const;
  const std::vector<Group>& groups() const { return layout_.groups(); }
  const StateOptions& options() const { return layout_.options(); }
  int32_t snapshots() const { return layout_.snapshots(); }
  /// Bytes that all pages together can take.
  size_t bytes() const { return layout_.bytes(); }

 private:
  /// The device that holds a state.
  Device& device_of(const std::string& name) const;

  StateLayout layout_;
  std::vector<Device*> devices_;  ///< of each place
  std::map<std::string, Operand> operands_;
  std::vector<Memory> memory_;  ///< of each place
};

}  // namespace veery
