// epilogue.h: the epilogue of linears, experts and heads: bias, activation, scale, residual.
#pragma once
#include "graph/ops/ops.h"
#include "kernels/cpu/linear/product.h"

namespace veery {

/// Rows of floats, contiguous or selected by an index list.
struct EpilogueRows {
  float* data = nullptr;           ///< null: there are none
  int64_t stride = 0;              ///< floats between rows
  const int32_t* order = nullptr;  ///< if set, row r is at index order[r]

  explicit operator bool() const { return data != nullptr; }
  float* row(int64_t r) const { return data + (order != nullptr ? order[r] : r) * stride; }
};
inline EpilogueRows epilogue_rows(const Operand& o) {
  if (!o) return {};
  return {o.row<float>(0), o.stride / int64_t{sizeof(float)}};
}

/// The operations that follow the products of row r, in this order: + bias, * input_factor[r],
/// activation (if gated, times the products with the second weight), * scale, * factor[r], + added.
/// The result is stored in `out`, or only the largest outputs are kept in `best`.
struct Epilogue {
  EpilogueRows out;                     ///< columns from Weight::column on
  EpilogueRows added;                   ///< same columns; may alias `out`
  std::array<const float*, 3> bias{};   ///< one per weight; null: none
  const float* input_factor = nullptr;  ///< null: none
  ActivateAttr gate;
  float limit = 0, alpha = 1;  ///< clamp and slope of a limited gate (MoeAttr); limit 0: no limit
  float scale = 1;
  const float* factor = nullptr;  ///< requires `added`: fma, rounded once; null: 1
  Best* best = nullptr;           ///< [row] of this worker; null: store all outputs
};

/// Returns the epilogue of a linear. `best` is null unless the op is kLinearArgmax.
inline Epilogue epilogue(const Dispatch& d, Best* best) {
  const auto& attr = d.as<FusedLinearAttr>();
  Epilogue e;
  if (best == nullptr) e.out = epilogue_rows(d.out());
  e.added = epilogue_rows(d.in[FusedLinearIn::kResidual]);
  for (size_t i = 0; i < e.bias.size(); ++i)
    if (const Operand& bias = d.in[FusedLinearIn::kBias + i]) e.bias[i] = bias.row<float>(0);
  e.gate = attr.gate;
  e.scale = attr.scale;
  e.best = best;
  return e;
}

}  // namespace veery
