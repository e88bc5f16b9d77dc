// experts_row.h: mixtures of experts for few pairs, whose weights come by rings of copies.
#pragma once
#include "kernels/gpu/kernels/experts.h"
#include "kernels/gpu/kernels/linear/gemv.h"

namespace veery::gpu {

/// experts() of few pairs: each has some blocks of threads for itself, whose weights come by a ring
/// (linear_row.h). Without limits, and gates count behind the products.
template <Format kFormat, int kParts>
VEERY_GPU void experts_row(const ExpertArguments& a) {
  wait_for_inputs();
  const int64_t pair = block_y();
  if (pair >= a.run.count(a.rows) * a.used) return;
  const int expert = a.pairs.expert[pair];
  LinearArguments own{};
  own.run = a.run;
  own.form = a.form;
  own.form.data += pair / a.rows_each * a.form.stride;
  own.rows = 1;
  for (int i = 0; i < kParts; ++i) {
    own.weight[i] = of_expert(a, i, expert);
    if (a.bias[i] != nullptr) own.bias[i] = a.bias[i] + int64_t{expert} * a.weight[i].rows;
  }
  own.weights = kParts;
  own.gated = kParts - 1;
  own.gate = a.activation;
  own.scale = 1;
  own.out = {a.out + pair * a.weight[0].rows, a.weight[0].rows, 1, a.weight[0].rows};
  own.room = a.room;
  RowProduct<kFormat, 1, RowPlan::kExpertWarps>(own).run();
}

}  // namespace veery::gpu
