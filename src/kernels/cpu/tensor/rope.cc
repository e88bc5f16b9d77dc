#include "kernels/cpu/tensor/rope.h"

#include <algorithm>

#include "kernels/cpu/tensor/rope_rows.h"

namespace veery {

void rope(const RopeProblem& problem, const RopeTable& table, Target target, ThreadPool& pool) {
  constexpr int64_t kElementsAtOnce = 1 << 14;
  const int64_t tokens = problem.batch * problem.tokens, each = problem.heads * problem.head_dim;
  if (tokens == 0 || each == 0) return;
  const RopeRows rows = find_rope_rows(target);
  pool.parallel_for(
      tokens, std::max<int64_t>(1, kElementsAtOnce / each), [&](int64_t begin, int64_t end) {
        const auto pairs = static_cast<size_t>(table.pairs());
        std::vector<double> of_pairs(3 * pairs);
        std::vector<float> row(static_cast<size_t>(problem.head_dim));
        double* first = of_pairs.data();
        rows(problem, table, begin, end, {first, first + pairs, first + 2 * pairs, row.data()});
      });
}

}  // namespace veery
