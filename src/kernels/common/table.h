// table.h: the entries of kernel tables: op, target, accepted operands, kernel.
#pragma once
#include <span>

#include "kernels/kernels.h"

namespace veery {

/// A kernel and the condition for its use. `target` is the target that the code was compiled for;
/// an entry for kAvx512 also serves kAvx512Vnni, and one for kNeon also serves kNeonDot.
struct KernelRow {
  Op op;
  Target target;
  bool (*accepts)(const Dispatch&, const KernelChoice&);
  Kernel kernel;
};
using KernelRows = std::span<const KernelRow>;

// Building blocks of KernelRow::accepts.
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
