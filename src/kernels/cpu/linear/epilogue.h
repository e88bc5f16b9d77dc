// epilogue.h: what follows the products of panels with rows, whatever they are part of.
#pragma once
#include "graph/ops/ops.h"
#include "kernels/cpu/linear/product.h"

namespace veery {

/// Rows of floats, one after the other or in the order of a list.
struct EpilogueRows {
  float* data = nullptr;           ///< null: there are none
  int64_t stride = 0;              ///< floats
  const int32_t* order = nullptr;  ///< row r is row order[r]

  explicit operator bool() const { return data != nullptr; }
  float* row(int64_t r) const { return data + (order != nullptr ? order[r] : r) * stride; }
};
inline EpilogueRows epilogue_rows(const Operand& o) {
  if (!o) return {};
  return {o.row<float>(0), o.stride / int64_t{sizeof(float)}};
}

/// Of the products of row r with a weight, or with the two of a gate, in this order: + bias,
/// * input_factor[r], the activation (times the products with the second weight), * scale,
/// * factor[r], + added. Then they are stored, or only the largest is kept.
struct Epilogue {
  EpilogueRows out;                     ///< columns from Weight::column on
  EpilogueRows added;                   ///< likewise; may be `out`
  std::array<const float*, 3> bias{};   ///< of each weight; null: there is none
  const float* input_factor = nullptr;  ///< null: there is none
  ActivateAttr gate;
  float limit = 0, alpha = 1;  ///< of a limited gate (MoeAttr); 0: it is not
  float scale = 1;
  const float* factor = nullptr;  ///< only with `added`: the sum is rounded once; null: 1
  Best* best = nullptr;           ///< [row] of this worker; null: all are stored
};

/// That of a linear.
inline Epilogue epilogue(const Dispatch& d, Best* best) {
  const auto& attr = d.as<LinearAttr>();
  Epilogue e;
  if (best == nullptr) e.out = epilogue_rows(d.out());
  e.added = epilogue_rows(d.in[LinearIn::kResidual]);
  for (size_t i = 0; i < e.bias.size(); ++i)
    if (const Operand& bias = d.in[LinearIn::kBias + i]) e.bias[i] = bias.row<float>(0);
  e.gate = attr.gate;
  e.scale = attr.scale;
  e.best = best;
  return e;
}

}  // namespace veery
