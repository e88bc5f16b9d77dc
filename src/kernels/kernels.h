// kernels.h: instruction sets, the choice of CPU kernels, and the packing of weights in panels.
#pragma once
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"

namespace veery {

/// Instruction sets that kernels are compiled for.
/// - kReference: the oracle, kernels/reference.
/// - kPlain: vectors as plain arrays with the same bits, for CPUs without the instruction sets.
/// - kAvxVnni: AVX2 with AVX-VNNI, which has the int8 dot products of AVX-512 VNNI.
/// - kAmx: kAvx512Vnni, with AMX tiles for many rows.
/// - kAmxEmulated: kAmx with tiles in plain C++, for tests; never in supported_targets().
/// - kNeon: 64-bit ARM.
/// - kNeonDot: kNeon with int8 dot products (FEAT_DotProd).
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

/// Returns the target whose vector type `target` uses.
constexpr Target vectors_of(Target target) {
  return target == Target::kAmx || target == Target::kAmxEmulated ? Target::kAvx512Vnni : target;
}

std::string_view name(Target target);
/// Returns the targets that this machine can run, best first; kPlain and kReference come last.
std::vector<Target> supported_targets();

struct KernelChoice {
  Target target = Target::kReference;
  int64_t rows = 1;    ///< the most rows of a run of the plan
  bool exact = false;  ///< f32 activations for quantised weights
};

/// Returns the CPU kernel for `op` on operands of the types and layouts in `dispatch`, or else the
/// reference kernel. Throws kUnsupported, naming op and types, if there is neither.
Kernel choose_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice);

// Weights in panels (kernels/cpu/panels/panels.h describes the layouts).

/// A type and one of its panel formats. A type alone stands for its default format.
struct WeightFormat {
  WeightFormat(DType t, uint8_t of = 0) : type(t), panels(of) {}  // NOLINT(*-explicit-*)
  DType type;
  uint8_t panels;  ///< Operand::format
};
/// Returns the format of a matrix whose products often serve only for an argmax (kLinearArgmax).
WeightFormat format_for_argmax(DType type);

bool can_pack(DType type);
size_t packed_bytes(const WeightFormat& format, int64_t rows, int64_t cols);
/// Bytes of one panel of 16 rows, the same for all formats of a type.
size_t panel_bytes(DType type, int64_t cols);
/// Repacks the panels [first, last) of a tensor. `source`: the file's bytes of the whole tensor.
/// May be called from several threads for different panels.
void pack_panels(const WeightFormat& format, const std::byte* source, int64_t rows, int64_t cols,
                 std::byte* target, int64_t first, int64_t last);
/// Decodes one row of a weight of any layout to f32.
void decode_row(const Operand& weight, int64_t row, float* out);

}  // namespace veery
