#include "kernels/gpu/masked_run.h"

#include <algorithm>
#include <exception>

#include "base/error.h"

namespace veery::gpu {
namespace {

size_t find_top_k(std::span<const Launch> launches) {
  const auto top = std::ranges::find(launches, KernelId::top_k_groups, &Launch::kernel);
  return static_cast<size_t>(top - launches.begin());
}

}  // namespace

bool MaskedRun::possible(std::span<const Launch> launches) {
  return find_top_k(launches) < launches.size();
}

MaskedRun::MaskedRun(Machine& machine, std::vector<Launch> launches, const Transfers& inputs,
                     std::vector<Transfers::Back> back, int64_t outputs) {
  VEERY_CHECK(possible(launches));
  const size_t top = find_top_k(launches);
  auto params = launches[top].as<TopKParams>();
  tokens_ = params.x.cols;
  const size_t words = TokenMaskRows::words(tokens_);
  masks_ = machine.allocate(static_cast<size_t>(outputs) * words * sizeof(uint32_t));
  params.masks = reinterpret_cast<const uint32_t*>(masks_.data());
  params.mask_words = static_cast<int32_t>(words);
  std::vector<Launch> rest(launches.begin() + static_cast<ptrdiff_t>(top), launches.end());
  rest.front() = Launch::of(KernelId::top_k_groups, rest.front().size, params);
  launches.resize(top);
  first_ = machine.record(std::move(launches), inputs);
  second_ = machine.record(std::move(rest), {masks_.data(), masks_.size(), std::move(back)});
}

void MaskedRun::run(TokenMask& mask, int32_t outputs, std::span<const size_t> bytes) {
  first_->start();
  std::exception_ptr error;
  try {
    mask.fill({reinterpret_cast<uint32_t*>(second_->input()), tokens_, outputs});
  } catch (...) {
    error = std::current_exception();
  }
  second_->run(bytes);
  if (error) std::rethrow_exception(error);
}

}  // namespace veery::gpu
