#include "plan/states.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

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

}  // namespace

int StateStore::find_group(int32_t window) {
  for (size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].window == window) return static_cast<int>(i);
  Group group{.window = window, .ring = pages_for(options_.context)};
  // The first row of a run still needs the window before it while the last one is already written.
  if (window > 0) group.ring = std::min(group.ring, pages_for(int64_t{window} + options_.rows) + 1);
  const int64_t pages = int64_t{group.ring} * options_.sequences;
  if (pages > INT32_MAX)
    throw Error(ErrorKind::kLimit, "cache: {} sequences of {} positions are too many",
                options_.sequences, options_.context);
  group.pages = static_cast<int32_t>(pages);
  if (window == 0 && options_.positions > 0)
    group.pages = std::min(group.pages, pages_for(options_.positions));
  groups_.push_back(group);
  return static_cast<int>(groups_.size()) - 1;
}

StateStore::StateStore(const Graph& graph, const StateOptions& options) : options_(options) {
  if (options.context < 1)
    throw Error(ErrorKind::kInput, "cache: context is {}, expected 1 or more", options.context);
  size_t total = 0;
  std::vector<std::pair<std::string, size_t>> places;
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kState) continue;
    const auto& attr = node.as<StateAttr>();
    const int group = find_group(attr.window);
    const DType type = attr.keys ? options.keys : options.values;
    check_type(type, attr.keys, static_cast<int32_t>(node.shape().cols() / attr.kv_heads));
    const auto page = static_cast<int64_t>(byte_size(type, node.shape().cols() * kPagePositions));
    operands_[node.name] = {.stride = page,
                            .rows = attr.kv_heads,
                            .cols = static_cast<int32_t>(node.shape().cols()),
                            .dtype = type,
                            .layout = attr.keys ? Layout::kKeyPages : Layout::kValuePages,
                            .group = static_cast<int16_t>(group)};
    places.emplace_back(node.name, total);
    total += aligned(static_cast<size_t>(page) *
                     static_cast<size_t>(groups_[static_cast<size_t>(group)].pages));
  }
  memory_ = Memory(total, true);
  for (const auto& [name, offset] : places) operands_[name].data = memory_.data() + offset;
}

const Operand& StateStore::at(const std::string& name) const {
  const auto found = operands_.find(name);
  if (found == operands_.end()) throw Error(ErrorKind::kBug, "cache {} was not made", name);
  return found->second;
}

void StateStore::copy_page(int group, int32_t from, int32_t to) {
  for (const auto& [name, operand] : operands_)
    if (operand.group == group)
      std::memcpy(operand.data + to * operand.stride, operand.data + from * operand.stride,
                  static_cast<size_t>(operand.stride));
}

}  // namespace veery
