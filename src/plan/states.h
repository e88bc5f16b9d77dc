// states.h: the memory of what sequences keep: pages of caches and blocks of recurrent layers, in
// groups that forget at the same rate.
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
  int32_t rows = 512;     ///< the most rows of a run: a ring must hold the window of each of them
  int32_t sequences = 1;  ///< page tables
  /// Sequences that an encoder writes for at a time, while others share what it wrote; 0: all.
  int32_t sources = 0;
  int32_t positions = 0;  ///< of all sequences together; 0: each may be full at the same time
  int32_t kept = 1;       ///< blocks of the last so many positions are kept, 1 or more
  /// Snapshots that there is memory for, of all sequences together. Where one is large, fewer: what
  /// fits in kSnapshotBytes, but no fewer than two.
  int32_t snapshots = 0;
  /// Place::first_layer of each place; empty: there is one.
  std::vector<int32_t> first_layers = {};
};
inline constexpr size_t kSnapshotBytes = size_t{512} << 20;

/// The sizes and offsets of all states of a graph, without their memory. A StateStore with the same
/// options allocates exactly these.
///
/// All layers with the same window share one page table a sequence: page i of a group is page i of
/// each of its layers. So do all blocks, of which a sequence has StateOptions::kept.
class StateLayout {
 public:
  struct Group {
    bool blocks = false;    ///< each page is one block
    int32_t source = 0;     ///< StateAttr::source: written as a whole, whatever the position is
    int32_t window = 0;     ///< of pages; 0: grows with the sequence
    int32_t pages = 0;      ///< in all
    int32_t ring = 0;       ///< most pages of one sequence
    int32_t saved = 0;      ///< most pages of one snapshot
    size_t page_bytes = 0;  ///< of a page in all layers
    bool grows() const { return !blocks && source == 0 && window == 0; }
  };
  struct State {
    Operand operand;    ///< without its address
    size_t place = 0;   ///< index of StateOptions::first_layers
    size_t offset = 0;  ///< in the bytes of its place
  };

  /// Throws kUnsupported for another type, or for kQ8_0 where head_dim is no multiple of 32; kInput
  /// for options out of range, kLimit for more pages than can be counted.
  StateLayout(const Graph& graph, const StateOptions& options);

  const StateOptions& options() const { return options_; }
  const std::vector<Group>& groups() const { return groups_; }
  const std::map<std::string, State>& states() const { return states_; }
  /// Snapshots that there is memory for; 0 too where none is ever needed.
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

/// The memory of a StateLayout. It is reserved at once and taken from the system when a page is
/// first written.
class StateStore {
 public:
  using Group = StateLayout::Group;

  /// Throws as StateLayout does. `devices`: whose memory it is, of each place; they must outlive
  /// the store. Empty: the host's.
  StateStore(const Graph& graph, const StateOptions& options,
             std::span<Device* const> devices = {});

  const Operand& at(const std::string& name) const;
  /// What page `from` holds in every layer of the group, page `to` then holds as well.
  void copy_page(int group, int32_t from, int32_t to);
  /// What a page holds in all layers of its group, page_bytes in the order of their names. Of
  /// positions behind the first `positions` of it, which others may have written, nothing but
  /// zeros.
  void read_page(int group, int32_t page, int64_t positions, std::span<std::byte> out) const;
  void write_page(int group, int32_t page, std::span<const std::byte> bytes);
  /// What of the layout says whether pages can be read by another store: names, types and sizes.
  std::string layout() const;
  const std::vector<Group>& groups() const { return layout_.groups(); }
  const StateOptions& options() const { return layout_.options(); }
  int32_t snapshots() const { return layout_.snapshots(); }
  /// Bytes that all pages together can take.
  size_t bytes() const { return layout_.bytes(); }

 private:
  /// Whose memory a state is in.
  Device& device_of(const std::string& name) const;

  StateLayout layout_;
  std::vector<Device*> devices_;  ///< of each place
  std::map<std::string, Operand> operands_;
  std::vector<Memory> memory_;  ///< of each place
};

}  // namespace veery
