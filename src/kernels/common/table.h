// table.h: one row of the kernel table: which op, on which instruction set, on which operands.
#pragma once
#include <span>

#include "kernels/kernels.h"

namespace veery {

/// A kernel and what it takes. `target` is what the code was compiled for (kAvx512 serves
/// kAvx512Vnni too, kNeon kNeonDot).
struct KernelRow {
  Op op;
  Target target;
  bool (*accepts)(const Dispatch&, const KernelChoice&);
  Kernel kernel;
};
using KernelRows = std::span<const KernelRow>;

// What the rows' accepts() are made of.
inline bool is_matrix(const Operand& o, DType type = DType::kF32) {
  return o.layout == Layout::kRowMajor && o.dtype == type;
}
inline bool absent_or_matrix(const Operand& o) { return !o || is_matrix(o); }
inline bool is_weight(const Operand& o) {
  return in_panels(o) || (o.layout == Layout::kRowMajor && info(o.dtype).decodable);
}
inline bool is_cache(const Operand& o) {
  const bool plain = o.dtype == DType::kF32 || o.dtype == DType::kF16 || o.dtype == DType::kBF16;
  return in_pages(o) &&
         (plain || (o.dtype == DType::kQ8_0 && o.cols / o.rows % info(DType::kQ8_0).block == 0));
}

}  // namespace veery
