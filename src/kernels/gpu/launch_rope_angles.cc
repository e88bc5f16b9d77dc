// Angles of rotary position embeddings, from frequencies that the host finds.
#include <algorithm>

#include "base/error.h"
#include "kernels/common/rope_angles.h"
#include "kernels/common/table.h"
#include "kernels/gpu/kernels/rope_angles.h"
#include "kernels/gpu/launches.h"

namespace veery::gpu {
namespace {

const double* uploaded(const std::vector<double>& all, Recorder& to) {
  Memory& memory = to.memory.emplace_back(to.machine.allocate(all.size() * sizeof(double)));
  to.machine.upload(memory.data(), all.data(), memory.size());
  return reinterpret_cast<const double*>(memory.data());
}
std::vector<double> frequencies(const AnglesAttr& attr, const Operand& divisors, int half,
                                const Recorder& to) {
  std::vector<float> given(static_cast<size_t>(half));
  if (divisors) to.machine.download(given.data(), divisors.data, given.size() * sizeof(float));
  const RopeFrequencies of(attr, divisors ? given.data() : nullptr);
  std::vector<double> all(given.size());
  for (int i = 0; i < half; ++i) all[static_cast<size_t>(i)] = of(i);
  return all;
}
// Of each context that a sequence may reach: where windows forget, it may be longer than its pages.
const double* magnitudes(const AnglesAttr& attr, Recorder& to) {
  constexpr int64_t kLongest = int64_t{1} << 24;
  const RopeFrequencies of(attr);
  const double last =
      static_cast<double>(std::max(to.positions, kLongest)) + attr.temperature_shift;
  std::vector<double> all;
  for (double context = 0; context * attr.original_context <= last; ++context)
    all.push_back(of.magnitude(context * attr.original_context - attr.temperature_shift));
  return uploaded(all, to);
}

}  // namespace

bool takes_angles(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeAnglesIn::kPositions], DType::kI32) &&
         absent_or_matrix(d.in[RopeAnglesIn::kDivisors]) &&
         absent_or_matrix(d.in[RopeAnglesIn::kExtended]) && is_matrix(d.out()) &&
         (d.as<AnglesAttr>().temperature == 0 || d.as<AnglesAttr>().temperature_shift >= 0);
}
void record_angles(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<AnglesAttr>();
  const int half = d.out().cols / 2;
  const Operand& extended = d.in[RopeAnglesIn::kExtended];
  AnglesArguments a{to.run};
  a.usual = uploaded(frequencies(attr, d.in[RopeAnglesIn::kDivisors], half, to), to);
  if (extended) a.extended = uploaded(frequencies(attr, extended, half, to), to);
  a.magnitude = RopeFrequencies(attr).magnitude(0);
  a.positions = to.ids(d.in[RopeAnglesIn::kPositions]);
  a.out = to.matrix(d.out());
  if (attr.temperature != 0) {
    a.magnitudes = magnitudes(attr, to);
    a.shift = attr.temperature_shift, a.context = attr.original_context;
  }
  to.add(KernelId::angles,
         {.blocks_x = static_cast<int>(to.most(d.out().rows)), .threads = 64, .shared = 0}, a);
}

}  // namespace veery::gpu
