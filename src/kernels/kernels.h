// kernels.h: which kernels there are, and the choice among them.
#pragma once
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"

namespace veery {

/// Instruction sets that kernels are compiled for. kReference: the oracle, kernels/reference.
/// kPlain: the vectors of the others as plain arrays, with their bits, for processors that have
/// none of the instruction sets. kAvxVnni: AVX2 with AVX-VNNI, whose dot products of bytes are
/// those of AVX-512 VNNI. kAmx: kAvx512Vnni, and tiles where there are many rows. kAmxEmulated: the
/// same with tiles in plain C++, for tests; never among the supported ones. kNeon: 64-bit ARM.
/// kNeonDot: the same with dot products of bytes (FEAT_DotProd).
enum class Target : uint8_t {
  kReference,
  kPlain,
  kAvx2,
  kAvxVnni,
  kAvx512,
  kAvx512Vnni,
  kAmx,
  kAmxEmulated,
  kNeon,
  kNeonDot
};

/// The target whose vectors `target` uses.
constexpr Target vectors_of(Target target) {
  return target == Target::kAmx || target == Target::kAmxEmulated ? Target::kAvx512Vnni : target;
}

std::string_view name(Target target);
/// What this machine can run, best first; kPlain and kReference are always the last two.
std::vector<Target> supported_targets();

struct KernelChoice {
  Target target = Target::kReference;
  int64_t rows = 1;    ///< the largest number of rows that the plan runs
  bool exact = false;  ///< f32 activations for quantised weights
};

/// The kernel for `op` on operands of the types and layouts in `dispatch`. Falls back to the
/// reference kernel; throws kUnsupported, naming op and types, if there is none.
Kernel choose_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

// Weights in panels (kernels/cpu/panels/panels.h describes the layouts).

/// A type, and which of the formats of panels that there are for it; of a type alone the usual one.
struct WeightFormat {
  WeightFormat(DType t, uint8_t of = 0) : type(t), panels(of) {}  // NOLINT(*-explicit-*)
  DType type;
  uint8_t panels;  ///< Operand::format
};
/// For a matrix of whose products with a row often only the largest is wanted (kLinearArgmax).
WeightFormat format_for_argmax(DType type);

bool can_pack(DType type);
size_t packed_bytes(const WeightFormat& format, int64_t rows, int64_t cols);
/// Bytes of one panel of 16 rows, in any of its formats.
size_t panel_bytes(DType type, int64_t cols);
/// Repacks the panels [first, last) from the file's bytes of the whole tensor. Panels are
/// independent: call it from several threads.
void pack_panels(const WeightFormat& format, const std::byte* source, int64_t rows, int64_t cols,
                 std::byte* target, int64_t first, int64_t last);
/// Decodes columns of one row of a weight of any layout to f32.
void decode_row(const Operand& weight, int64_t row, float* out);

}  // namespace veery
