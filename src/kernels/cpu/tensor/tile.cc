#include "kernels/cpu/tensor/tile.h"

#include <algorithm>
#include <cstring>

namespace veery {
namespace {

using Strides = std::array<int64_t, kMaxTensorRank>;

bool is_half(ElementType type) { return type == ElementType::kF16 || type == ElementType::kBF16; }
int64_t bytes_of(ElementType type) { return info(type).bytes; }

bool is_contiguous(const ElementProgram& program, const Strides& strides) {
  int64_t next = 1;
  for (int i = program.rank - 1; i >= 0; --i) {
    if (strides[static_cast<size_t>(i)] != next) return false;
    next *= program.shape[static_cast<size_t>(i)];
  }
  return true;
}
bool is_repeated(const ElementProgram& program, const Strides& strides) {
  return std::all_of(strides.begin(), strides.begin() + program.rank,
                     [](int64_t stride) { return stride == 0; });
}

// Calls row(offset, begin, count) for each part of the range within one row of its last dimension:
// `offset` is that of its first element, `begin` its place in the tile.
template <typename Row>
void each_row(const ElementProgram& program, const Strides& strides, const TileRange& range,
              const Row& row) {
  int64_t offset = 0;
  for (int i = range.dimensions; i < program.rank; ++i)
    offset += range.indices[i - range.dimensions] * strides[static_cast<size_t>(i)];
  if (range.dimensions == 0) return row(offset, int64_t{0}, range.count);
  Strides index{};
  int64_t rest = range.begin;
  for (int i = range.dimensions - 1; i >= 0; --i) {
    const auto d = static_cast<size_t>(i);
    index[d] = rest % program.shape[d];
    rest /= program.shape[d];
    offset += index[d] * strides[d];
  }
  const auto last = static_cast<size_t>(range.dimensions - 1);
  for (int64_t done = 0; done < range.count;) {
    const int64_t count = std::min(range.count - done, program.shape[last] - index[last]);
    row(offset, done, count);
    done += count;
    if (done == range.count) return;
    offset -= index[last] * strides[last];
    index[last] = 0;
    for (size_t d = last; d-- > 0;) {
      offset += strides[d];
      if (++index[d] < program.shape[d]) break;
      offset -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

template <typename T>
void gather(const std::byte* from, int64_t stride, std::byte* to, int64_t count) {
  const auto* x = reinterpret_cast<const T*>(from);
  auto* y = reinterpret_cast<T*>(to);
  if (stride == 1) {
    std::memcpy(y, x, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = x[i * stride];
  }
}
template <typename T>
void scatter(const std::byte* from, std::byte* to, int64_t stride, int64_t count) {
  const auto* x = reinterpret_cast<const T*>(from);
  auto* y = reinterpret_cast<T*>(to);
  if (stride == 1) {
    std::memcpy(y, x, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) y[i * stride] = x[i];
  }
}
// Calls fn with a value of an unsigned type of `bytes` bytes.
template <typename Fn>
void with_size(int64_t bytes, const Fn& fn) {
  switch (bytes) {
    case 1: return fn(uint8_t{});
    case 2: return fn(uint16_t{});
    case 4: return fn(uint32_t{});
    default: return fn(uint64_t{});
  }
}

std::vector<std::byte>& registers_of_thread() {
  thread_local std::vector<std::byte> memory;
  memory.resize(static_cast<size_t>(kElementRegisters + 1) * kTile * 8);
  return memory;
}

template <typename T>
void fill(std::byte* to, T value) {
  std::fill_n(reinterpret_cast<T*>(to), kTile, value);
}
void fill_constant(std::byte* to, const ElementConstant& c) {
  switch (c.type) {
    case ElementType::kBool:
    case ElementType::kU8: return fill(to, static_cast<uint8_t>(c.integer));
    case ElementType::kI8: return fill(to, static_cast<int8_t>(c.integer));
    case ElementType::kI32: return fill(to, static_cast<int32_t>(c.integer));
    case ElementType::kU32: return fill(to, static_cast<uint32_t>(c.integer));
    case ElementType::kI64: return fill(to, c.integer);
    case ElementType::kF16:
    case ElementType::kBF16:
    case ElementType::kF32: return fill(to, static_cast<float>(c.real));
    case ElementType::kF64: return fill(to, c.real);
  }
}

}  // namespace

LoweredProgram::LoweredProgram(const ElementProgram& source, Target target) : program(source) {
  collapse(program);
  for (const Instruction& i : program.code) loops.push_back(find_element_loop(target, i));
  const auto describe = [&](const StridedElements& elements, bool is_input) {
    Transfer transfer{.repeated = is_repeated(program, elements.strides),
                      .contiguous = is_contiguous(program, elements.strides)};
    if (is_half(elements.type))
      transfer.convert =
          is_input ? find_load(target, elements.type) : find_store(target, elements.type);
    return transfer;
  };
  for (const ElementTransfer& in : program.inputs) inputs.push_back(describe(in.elements, true));
  for (const ElementTransfer& out : program.outputs)
    outputs.push_back(describe(out.elements, false));
  writes.assign(program.code.size(), -1);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const ElementTransfer& out = program.outputs[k];
    const auto overlaps = [&](const ElementTransfer& in) {
      return in.elements.data == out.elements.data;
    };
    if (!outputs[k].contiguous || outputs[k].convert != nullptr ||
        std::any_of(program.inputs.begin(), program.inputs.end(), overlaps))
      continue;
    for (size_t i = program.code.size(); i-- > 0;)
      if (program.code[i].out == out.reg) {
        if (writes[i] < 0) writes[i] = static_cast<int>(k);
        break;
      }
  }
}

Tile::Tile(const LoweredProgram& lowered) : lowered_(lowered), buffers_(registers_of_thread()) {
  for (const ElementConstant& c : lowered.program.constants) {
    fill_constant(buffer(c.reg), c);
    at_[c.reg] = buffer(c.reg);
  }
  // An element that is repeated is read once.
  for (size_t i = 0; i < lowered.inputs.size(); ++i) {
    if (!lowered.inputs[i].repeated) continue;
    const ElementTransfer& in = lowered.program.inputs[i];
    std::byte* to = buffer(in.reg);
    with_size(bytes_of(in.elements.type), [&](auto sample) {
      std::memcpy(&sample, in.elements.data, sizeof sample);
      std::byte* first = lowered.inputs[i].convert != nullptr ? buffer(kElementRegisters) : to;
      fill(first, sample);
      if (lowered.inputs[i].convert != nullptr) lowered.inputs[i].convert(first, to, kTile);
    });
    at_[in.reg] = to;
  }
}

const void* Tile::load(size_t input, const TileRange& range) {
  const ElementTransfer& in = lowered_.program.inputs[input];
  const StridedElements& elements = in.elements;
  const LoweredProgram::Transfer& transfer = lowered_.inputs[input];
  const int64_t bytes = bytes_of(elements.type);
  const std::byte* direct = nullptr;
  std::byte* raw = transfer.convert != nullptr ? buffer(kElementRegisters) : buffer(in.reg);
  const int64_t stride =
      range.dimensions > 0 ? elements.strides[static_cast<size_t>(range.dimensions - 1)] : 0;
  if (transfer.contiguous && range.indices == nullptr) {
    direct = elements.data + range.begin * bytes;
  } else {
    each_row(lowered_.program, elements.strides, range,
             [&](int64_t offset, int64_t begin, int64_t count) {
               const std::byte* from = elements.data + offset * bytes;
               if (count == range.count && stride == 1) {
                 direct = from;
                 return;
               }
               with_size(bytes, [&](auto sample) {
                 gather<decltype(sample)>(from, stride, raw + begin * bytes, count);
               });
             });
  }
  const void* from = direct != nullptr ? direct : raw;
  if (transfer.convert == nullptr) return from;
  transfer.convert(from, buffer(in.reg), range.count);
  return buffer(in.reg);
}

void Tile::store(size_t output, const TileRange& range) {
  const ElementTransfer& out = lowered_.program.outputs[output];
  const StridedElements& elements = out.elements;
  const int64_t bytes = bytes_of(elements.type);
  const void* from = at_[out.reg];
  if (lowered_.outputs[output].convert != nullptr) {
    lowered_.outputs[output].convert(from, buffer(kElementRegisters), range.count);
    from = buffer(kElementRegisters);
  }
  const auto* data = static_cast<const std::byte*>(from);
  const int64_t stride =
      range.dimensions > 0 ? elements.strides[static_cast<size_t>(range.dimensions - 1)] : 1;
  each_row(lowered_.program, elements.strides, range,
           [&](int64_t offset, int64_t begin, int64_t count) {
             with_size(bytes, [&](auto sample) {
               scatter<decltype(sample)>(data + begin * bytes, elements.data + offset * bytes,
                                         stride, count);
             });
           });
}

void Tile::compute(const TileRange& range) {
  const ElementProgram& program = lowered_.program;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (!lowered_.inputs[i].repeated) at_[program.inputs[i].reg] = load(i, range);
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& step = program.code[i];
    void* out = buffer(step.out);
    if (lowered_.writes[i] >= 0 && range.indices == nullptr) {
      const StridedElements& to = program.outputs[static_cast<size_t>(lowered_.writes[i])].elements;
      out = to.data + range.begin * bytes_of(to.type);
    }
    lowered_.loops[i](at_[step.a], at_[step.b], at_[step.c], out, range.count);
    at_[step.out] = out;
  }
  for (size_t k = 0; k < program.outputs.size(); ++k) {
    const ElementTransfer& out = program.outputs[k];
    const std::byte* direct = out.elements.data + range.begin * bytes_of(out.elements.type);
    if (range.indices == nullptr && at_[out.reg] == direct) continue;  // an instruction wrote it
    store(k, range);
  }
}

}  // namespace veery
