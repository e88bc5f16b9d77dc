// Rotary position embeddings of data in memory.
#include "kernels/cpu/tensor/rope.h"

#include <sys/types.h>

#include <functional>
#include <mutex>

#include "capi/status.h"
#include "capi/structures.h"
#include "model/config.h"
#include "tensor/runtime.h"

using namespace veery;
using namespace veery::capi;

namespace {

static_assert(VEERY_DTYPE_BF16 == static_cast<int>(ElementType::kBF16) &&
              VEERY_DTYPE_F32 == static_cast<int>(ElementType::kF32));

constexpr const char* kParams = "veery_rope_params";

veery_rope_params default_params() {
  const AnglesAttr angles;
  veery_rope_params params{};
  params.size = sizeof params;
  params.mode = VEERY_ROPE_NEOX;
  params.dtype = VEERY_DTYPE_F32;
  params.position_dtype = VEERY_DTYPE_I32;
  params.theta_base = angles.theta;
  params.factor = angles.factor;
  params.beta_fast = angles.beta_fast;
  params.beta_slow = angles.beta_slow;
  params.low_freq_factor = angles.low_freq_factor;
  params.high_freq_factor = angles.high_freq_factor;
  return params;
}

/// Memory of the caller.
struct Argument {
  const char* name;
  const void* data;
  size_t count;  ///< elements
  const std::byte* first() const { return static_cast<const std::byte*>(data); }
};

// Throws unless a member with the values of an enumeration is one of `first` to `last`.
void check_choice(const char* name, int32_t value, int32_t first, int32_t last,
                  const char* expected) {
  if (value < first || value > last)
    throw Error(ErrorKind::kInput, "{} is {}, expected {}", name, value, expected);
}

void check_params(const veery_rope_params& p) {
  for (const auto& [name, value] :
       {std::pair{"batch", p.batch}, {"n_heads", p.n_heads}, {"seq_len", p.seq_len}})
    if (value == 0) throw Error(ErrorKind::kInput, "{} is 0, expected 1 or more", name);
  check_choice("layout", p.layout, VEERY_ROPE_TOKENS_FIRST, VEERY_ROPE_HEADS_FIRST,
               "0 (tokens first) or 1 (heads first)");
  check_choice("dtype", p.dtype, VEERY_DTYPE_BF16, VEERY_DTYPE_F32, "7 (bf16) or 8 (f32)");
  check_choice("position_dtype", p.position_dtype, VEERY_DTYPE_I32, VEERY_DTYPE_U32,
               "3 (i32) or 4 (u32)");
  check_choice("scaling", p.scaling, VEERY_ROPE_SCALING_NONE, VEERY_ROPE_SCALING_YARN,
               "0 (none), 1 (linear), 2 (Llama 3) or 3 (YaRN)");
  if (p.frequency_factor_count > 0 && p.frequency_factors == nullptr)
    throw Error(ErrorKind::kInput, "frequency_factors is null, expected {} numbers",
                p.frequency_factor_count);
}

RopeTable table_of(const veery_rope_params& p) {
  const auto scaling = static_cast<RopeScaling>(p.scaling);
  const double usual = scaling == RopeScaling::kYarn ? yarn_magnitude(p.factor, 1) : 1;
  RopeParameters parameters{
      .head_dim = p.head_dim,
      .rope_dim = p.rope_dim,
      .mode = static_cast<RopeMode>(p.mode),
      .pairing = static_cast<RopePairing>(p.pairing),
      .angles = {.theta = p.theta_base,
                 .scaling = scaling,
                 .factor = p.factor,
                 .low_freq_factor = p.low_freq_factor,
                 .high_freq_factor = p.high_freq_factor,
                 .beta_fast = p.beta_fast,
                 .beta_slow = p.beta_slow,
                 .truncate = p.untruncated == 0,
                 .attention_factor = p.attention_factor == 0 ? usual : p.attention_factor,
                 .original_context = p.original_context}};
  std::copy(std::begin(p.sections), std::end(p.sections), parameters.sections.begin());
  // The count is compared with rope_dim before anything is read.
  if (p.frequency_factor_count == p.rope_dim / 2)
    parameters.divisors.assign(p.frequency_factors, p.frequency_factors + p.rope_dim / 2);
  if (const std::string wrong = invalid_rope(parameters); !wrong.empty())
    throw Error(ErrorKind::kInput, "{}", wrong);
  if (p.frequency_factor_count != 0 && parameters.divisors.empty())
    throw Error(ErrorKind::kInput, "frequency_factor_count is {}, expected rope_dim / 2 = {}",
                p.frequency_factor_count, p.rope_dim / 2);
  return RopeTable(parameters);
}

void check_data(const Argument& argument, size_t bytes) {
  if (argument.data == nullptr) throw Error(ErrorKind::kInput, "{} is null", argument.name);
  if (reinterpret_cast<uintptr_t>(argument.data) % bytes != 0)
    throw Error(ErrorKind::kInput, "{} is at {}, expected an address that is a multiple of {}",
                argument.name, argument.data, bytes);
}

void check_elements(const Argument& argument, const veery_rope_params& p) {
  size_t expected = p.batch;
  for (const size_t size : {p.n_heads, p.seq_len, p.head_dim})
    if (__builtin_mul_overflow(expected, size, &expected) || expected >= size_t{1} << 60)
      throw Error(ErrorKind::kInput,
                  "batch * n_heads * seq_len * head_dim = {} * {} * {} * {}, expected less than "
                  "2^60 elements",
                  p.batch, p.n_heads, p.seq_len, p.head_dim);
  if (argument.count != expected)
    throw Error(ErrorKind::kInput,
                "{}_count is {}, expected batch * n_heads * seq_len * head_dim = {} * {} * {} * {} "
                "= {}",
                argument.name, argument.count, p.batch, p.n_heads, p.seq_len, p.head_dim, expected);
}

void check_positions(const Argument& positions, const veery_rope_params& p) {
  const size_t expected = size_t{4} * p.batch * p.seq_len;
  if (positions.count != expected)
    throw Error(ErrorKind::kInput,
                "position_count is {}, expected 4 * batch * seq_len = 4 * {} * {} = {}",
                positions.count, p.batch, p.seq_len, expected);
}

void check_overlap(const Argument& output, size_t output_bytes, const Argument& other,
                   size_t other_bytes, const char* expected) {
  const std::less<> before;
  if (before(other.first(), output.first() + output_bytes) &&
      before(output.first(), other.first() + other_bytes))
    throw Error(ErrorKind::kInput, "{} overlaps {}, expected {}", output.name, other.name,
                expected);
}

void rotate(const Argument& input, const Argument& positions, const Argument& output,
            const veery_rope_params* given, bool back) {
  required(given, "params");
  const veery_rope_params p = options_or(given, default_params(), kParams);
  check_params(p);
  const RopeTable table = table_of(p);
  const auto type = static_cast<ElementType>(p.dtype);
  const auto bytes = static_cast<size_t>(info(type).bytes);
  check_elements(input, p);
  check_positions(positions, p);
  check_elements(output, p);
  check_data(input, bytes);
  check_data(positions, sizeof(int32_t));
  check_data(output, bytes);
  if (input.data != output.data)
    check_overlap(output, output.count * bytes, input, input.count * bytes,
                  "the same memory or other memory");
  check_overlap(output, output.count * bytes, positions, positions.count * sizeof(int32_t),
                "other memory");

  RopeHeads heads{.token_stride = int64_t{p.n_heads} * p.head_dim, .head_stride = p.head_dim};
  if (p.layout == VEERY_ROPE_HEADS_FIRST)
    heads = {.token_stride = p.head_dim, .head_stride = int64_t{p.seq_len} * p.head_dim};
  heads.batch_stride = int64_t{p.n_heads} * p.seq_len * p.head_dim;
  RopeProblem problem{.type = type,
                      .batch = p.batch,
                      .tokens = p.seq_len,
                      .heads = p.n_heads,
                      .head_dim = p.head_dim,
                      .in = heads,
                      .out = heads,
                      .back = back};
  // The kernel does not write through `in` unless it is `out`.
  problem.in.data = const_cast<std::byte*>(input.first());
  problem.out.data = const_cast<std::byte*>(output.first());
  for (size_t axis = 0; axis < problem.positions.size(); ++axis)
    problem.positions[axis] =
        static_cast<const int32_t*>(positions.data) + axis * p.batch * p.seq_len;
  tensor::Runtime& runtime = tensor::Runtime::get();
  const std::lock_guard lock(runtime.mutex());
  rope(problem, table, runtime.target(), runtime.pool());
}

}  // namespace

veery_status veery_rope_params_init(veery_rope_params* params, size_t size) {
  return guarded([&] {
    give_structure(params, size, default_params(), kParams);
    return VEERY_OK;
  });
}

veery_status veery_rope_forward(const void* input, size_t input_count, const void* positions,
                                size_t position_count, void* output, size_t output_count,
                                const veery_rope_params* params) {
  return guarded([&] {
    rotate({"input", input, input_count}, {"positions", positions, position_count},
           {"output", output, output_count}, params, false);
    return VEERY_OK;
  });
}

veery_status veery_rope_backward(const void* grad_output, size_t grad_output_count,
                                 const void* positions, size_t position_count, void* grad_input,
                                 size_t grad_input_count, const veery_rope_params* params) {
  return guarded([&] {
    rotate({"grad_output", grad_output, grad_output_count},
           {"positions", positions, position_count}, {"grad_input", grad_input, grad_input_count},
           params, true);
    return VEERY_OK;
  });
}
