#include "import/expert_tensors.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "file/folder/row_sources.h"

namespace veery {
namespace {

// Storage of a layer's experts in folders of an architecture.
struct StackRow {
  std::string_view architecture;
  bool transposed;   // shape (experts, in, out), except for quantised blocks
  bool interleaved;  // gate and up rows alternate
};
constexpr StackRow kStacks[] = {{"gpt-oss", true, true}, {"llama4", true, false}};

constexpr std::string_view kParts[] = {"ffn_gate", "ffn_up", "ffn_down"};

// Splits "blk.0.ffn_gate.3.weight" into "blk.0.ffn_gate_exps.weight" and 3; returns "" for other
// names.
std::string stacked_name(std::string_view name, uint32_t& expert) {
  for (const std::string_view part : kParts) {
    const size_t at = name.find(part);
    const size_t end = at + part.size();
    if (at == std::string_view::npos || end >= name.size() || name[end] != '.') continue;
    const char* last = name.data() + name.size();
    const auto [digits, error] = std::from_chars(name.data() + end + 1, last, expert);
    if (error != std::errc() || digits == last || *digits != '.') return {};
    return std::string(name.substr(0, end)) + "_exps" + std::string(digits, last);
  }
  return {};
}

void stack_experts(ModelFile& file) {
  std::map<std::string, std::map<uint32_t, TensorView>> found;
  std::vector<TensorView> kept;
  for (TensorView& tensor : file.tensors) {
    uint32_t expert = 0;
    std::string name = stacked_name(tensor.name, expert);
    if (name.empty()) {
      kept.push_back(std::move(tensor));
      continue;
    }
    auto& experts = found[name];
    if (experts.contains(expert))
      throw Error(ErrorKind::kFormat, "{}: two tensors map to {}", file.path,
                  printable(tensor.name));
    experts.emplace(expert, std::move(tensor));
  }
  for (auto& [name, experts] : found) {
    if (experts.rbegin()->first != experts.size() - 1)
      throw Error(ErrorKind::kFormat, "{}: {}: found {} experts, but the highest index is {}",
                  file.path, printable(name), experts.size(), experts.rbegin()->first);
    std::vector<TensorView> parts;
    for (auto& [expert, tensor] : experts) parts.push_back(std::move(tensor));
    kept.push_back(stack_tensors(std::move(parts), name));
  }
  file.tensors = std::move(kept);
}

// Checks a stack of one matrix, or (for biases) one vector, per expert.
void check_stack(const ModelFile& file, const TensorView& tensor, size_t dims) {
  if (tensor.shape.size() != dims || tensor.elements() == 0)
    throw Error(ErrorKind::kFormat, "{}: tensor '{}' has {} dimensions, expected {}", file.path,
                printable(tensor.name), tensor.shape.size(), dims);
}

// Splits a joint gate-up tensor, whose rows are either two halves or alternate.
void split_gate_up(ModelFile& file, const TensorView& joint, bool interleaved,
                   std::vector<TensorView>& out) {
  const bool bias = joint.name.ends_with(".bias");
  check_stack(file, joint, bias ? 2 : 3);
  TensorView rows = joint;
  if (bias) rows.shape.push_back(1);
  const int64_t both = rows.shape[1];
  if (both % 2 != 0)
    throw Error(ErrorKind::kFormat,
                "{}: tensor '{}' has {} rows per expert, expected an even number", file.path,
                printable(joint.name), both);
  const std::string layer = joint.name.substr(0, joint.name.find("ffn_gate_up"));
  const std::string kind = joint.name.substr(joint.name.rfind('.'));
  for (int part = 0; part < 2; ++part) {
    std::vector<int64_t> shape = {rows.shape[0], both / 2, rows.shape[2]};
    const RowPick pick = interleaved ? RowPick{both, part, 2} : RowPick{both, part * (both / 2), 1};
    TensorView view =
        pick_rows(rows, layer + (part == 0 ? "ffn_gate_exps" : "ffn_up_exps") + kind, shape, pick);
    if (bias) {
      std::vector<std::byte> buffer;
      view.read(buffer);
      view.shape.pop_back();
      view.source = make_bytes(std::move(buffer), byte_size(view.dtype, view.shape.back()));
    }
    out.push_back(std::move(view));
  }
}

}  // namespace

void gather_experts(ModelFile& file, std::string_view architecture) {
  stack_experts(file);
  const auto row = std::ranges::find(kStacks, architecture, &StackRow::architecture);
  const StackRow how = row == std::end(kStacks) ? StackRow{} : *row;
  const auto is_joint = [](const TensorView& tensor) {
    return tensor.name.find("ffn_gate_up_exps.") != std::string::npos;
  };
  // MLX stores gate and up separately and has already transposed all matrices.
  const bool turned = how.transposed && file.container == Container::kFolder &&
                      std::ranges::any_of(file.tensors, is_joint);
  std::vector<TensorView> tensors;
  for (TensorView& tensor : file.tensors) {
    const bool joint = is_joint(tensor);
    const bool down = tensor.name.ends_with("ffn_down_exps.weight");
    const bool plain = info(tensor.dtype).block == 1;
    if (turned && plain && ((joint && tensor.name.ends_with(".weight")) || down)) {
      check_stack(file, tensor, 3);
      tensor = transposed(tensor);
    }
    if (joint)
      split_gate_up(file, tensor, how.interleaved, tensors);
    else
      tensors.push_back(std::move(tensor));
  }
  file.tensors = std::move(tensors);
}

}  // namespace veery
