#include "plan/states.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/host_device.h"
#include "kernels/common/pages.h"

namespace veery {
namespace {

int32_t pages_for(int64_t positions) {
  return static_cast<int32_t>((positions + kPagePositions - 1) / kPagePositions);
}

void check_type(DType type, bool keys, int32_t head_dim) {
  const std::string_view what = keys ? "keys" : "values";
  if (type != DType::kF32 && type != DType::kF16 && type != DType::kBF16 && type != DType::kQ8_0)
    throw Error(ErrorKind::kUnsupported, "cache: {} of type {}, expected f32, f16, bf16 or q8_0",
                what, info(type).name);
  if (head_dim % info(type).block != 0)
    throw Error(ErrorKind::kUnsupported,
                "cache: {} of type {} need heads of a multiple of {} dimensions, these have {}",
                what, info(type).name, info(type).block, head_dim);
}

// Zeroes the positions of a page from `first` on.
void forget_positions(const Operand& cache, int64_t first, std::byte* page) {
  const int64_t heads = cache.rows, head_dim = cache.cols / heads;
  const bool keys = cache.layout == Layout::kKeyPages;
  const auto size = static_cast<size_t>(info(cache.dtype).bytes);
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t position = first; position < kPagePositions; ++position) {
      if (cache.dtype == DType::kQ8_0) {
        Q8Tile* tiles = q8_tiles(page, head, position, head_dim);
        for (int64_t i = 0; i < head_dim; ++i) {
          tiles[i / 32].scales[position % kLanes] = 0;
          tiles[i / 32].codes[q8_code(keys, position, i)] = 0;
        }
        continue;
      }
      const int64_t at =
          keys ? key_offset(head, position, head_dim) : value_offset(head, position, head_dim);
      for (int64_t i = 0; i < head_dim; ++i)
        std::memset(page + static_cast<size_t>(at + i * (keys ? kLanes : 1)) * size, 0, size);
    }
}

}  // namespace

int StateLayout::find_group(const StateAttr& attr) {
  const bool blocks = attr.kind == StateKind::kBlock;
  for (size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].blocks == blocks && groups_[i].window == attr.window &&
        groups_[i].source == attr.source)
      return static_cast<int>(i);
  Group group{.blocks = blocks,
              .source = attr.source,
              .window = attr.window,
              .ring = pages_for(options_.context)};
  if (attr.source > 0) {
    group.ring = pages_for(attr.source);
  } else if (blocks) {
    group.ring = options_.kept;
    group.saved = 1;
  } else if (attr.window > 0) {
    // All rows of a run are written before attention runs, so the ring must hold them and the
    // window before the first one.
    const int32_t needed = pages_for(int64_t{attr.window} + options_.rows) + 1;
    group.ring = std::min(group.ring, needed);
    group.saved = std::min(group.ring, pages_for(attr.window) + 1);
  }
  groups_.push_back(group);
  return static_cast<int>(groups_.size()) - 1;
}

// Describes the operand of a state, without its address.
void StateLayout::describe(const Node& node) {
  const auto& attr = node.as<StateAttr>();
  const int group = find_group(attr);
  Operand operand{.cols = static_cast<int32_t>(node.shape().cols()),
                  .group = static_cast<int16_t>(group)};
  size_t bytes = 0;
  if (attr.kind == StateKind::kBlock) {
    operand.rows = node.shape().rows().size;
    operand.layout = Layout::kBlocks;
    bytes = aligned(static_cast<size_t>(operand.rows * operand.cols) * sizeof(float));
  } else {
    const bool keys = attr.kind == StateKind::kKeys;
    operand.dtype = keys ? options_.keys : options_.values;
    check_type(operand.dtype, keys, operand.cols / attr.kv_heads);
    operand.rows = attr.kv_heads;
    operand.layout = keys ? Layout::kKeyPages : Layout::kValuePages;
    bytes = byte_size(operand.dtype, node.shape().cols() * kPagePositions);
  }
  operand.stride = static_cast<int64_t>(bytes);
  groups_[static_cast<size_t>(group)].page_bytes += bytes;
  states_[node.name] = {operand, place_of(options_.first_layers, node.name), 0};
}

// Sets the number of pages of each group: those of sequences and those of snapshots.
void StateLayout::size_groups() {
  size_t saved = 0;
  for (const Group& group : groups_) saved += static_cast<size_t>(group.saved) * group.page_bytes;
  const auto affordable = saved == 0 ? 0 : std::max<size_t>(kSnapshotBytes / saved, 2);
  snapshots_ = static_cast<int32_t>(
      std::min(affordable, static_cast<size_t>(std::max(options_.snapshots, 0))));
  for (Group& group : groups_) {
    const bool shared = group.source > 0 && options_.sources > 0;
    const int32_t owners = shared ? options_.sources : options_.sequences;
    const int64_t pages = int64_t{group.ring} * owners + int64_t{group.saved} * snapshots_;
    if (pages > INT32_MAX)
      throw Error(ErrorKind::kLimit, "cache: {} sequences of {} positions are too many",
                  options_.sequences, options_.context);
    group.pages = static_cast<int32_t>(pages);
    if (group.grows() && options_.positions > 0)
      group.pages = std::min(group.pages, pages_for(options_.positions));
  }
}

StateLayout::StateLayout(const Graph& graph, const StateOptions& options)
    : options_(options), place_bytes_(std::max<size_t>(1, options.first_layers.size())) {
  if (options.context < 1)
    throw Error(ErrorKind::kInput, "cache: context is {}, expected 1 or more", options.context);
  if (options.kept < 1)
    throw Error(ErrorKind::kInput,
                "cache: blocks of {} positions are to be kept, expected 1 or more", options.kept);
  for (const Node& node : graph.nodes())
    if (node.op == op::kState) describe(node);
  size_groups();
  for (auto& [name, state] : states_) {
    size_t& total = place_bytes_[state.place];
    state.offset = total;
    const Group& group = groups_[static_cast<size_t>(state.operand.group)];
    total += aligned(static_cast<size_t>(state.operand.stride) * static_cast<size_t>(group.pages));
  }
}

size_t StateLayout::growing_page_bytes() const {
  size_t bytes = 0;
  for (const Group& group : groups_)
    if (group.grows()) bytes += group.page_bytes;
  return bytes;
}

StateStore::StateStore(const Graph& graph, const StateOptions& options,
                       std::span<Device* const> devices)
    : layout_(graph, options), devices_(devices.begin(), devices.end()) {
  devices_.resize(layout_.place_bytes().size(), &host_device());
  for (size_t place = 0; place < devices_.size(); ++place) {
    const size_t bytes = layout_.place_bytes()[place];
    memory_.push_back(bytes > 0 ? devices_[place]->reserve(bytes) : Memory());
  }
  for (const auto& [name, state] : layout_.states()) {
    Operand& operand = operands_[name] = state.operand;
    operand.data = memory_[state.place].data() + state.offset;
  }
}

Device& StateStore::device_of(const std::string& name) const {
  return *devices_[layout_.states().at(name).place];
}

const Operand& StateStore::at(const std::string& name) const {
  const auto found = operands_.find(name);
  if (found == operands_.end()) throw Error(ErrorKind::kBug, "cache {} was not made", name);
  return found->second;
}

void StateStore::copy_page(int group, int32_t from, int32_t to) {
  for (const auto& [name, operand] : operands_) {
    if (operand.group != group) continue;
    std::byte* const target = operand.data + to * operand.stride;
    const std::byte* const source = operand.data + from * operand.stride;
    const auto bytes = static_cast<size_t>(operand.stride);
    device_of(name).copy(target, source, bytes);
  }
}

void StateStore::read_page(int group, int32_t page, int64_t positions,
                           std::span<std::byte> out) const {
  for (const auto& [name, operand] : operands_) {
    if (operand.group != group) continue;
    const auto bytes = static_cast<size_t>(operand.stride);
    const std::byte* const source = operand.data + page * operand.stride;
    device_of(name).download(out.data(), source, bytes);
    if (operand.layout != Layout::kBlocks) forget_positions(operand, positions, out.data());
    out = out.subspan(bytes);
  }
}

void StateStore::write_page(int group, int32_t page, std::span<const std::byte> bytes) {
  for (const auto& [name, operand] : operands_) {
    if (operand.group != group) continue;
    const auto own = bytes.first(static_cast<size_t>(operand.stride));
    std::byte* const target = operand.data + page * operand.stride;
    device_of(name).upload(target, own.data(), own.size());
    bytes = bytes.subspan(own.size());
  }
}

std::string StateStore::layout() const {
  std::string text;
  for (const auto& [name, operand] : operands_)
    text += fmt::format("{} {} {}x{} {} {}\n", name, info(operand.dtype).name, operand.rows,
                        operand.cols, operand.stride, operand.group);
  for (const Group& group : groups())
    text +=
        fmt::format("{} {} {}\n", group.blocks ? "blocks" : "pages", group.window, group.source);
  return text;
}

}  // namespace veery
