// Random numbers as a function of a key.
#include <cmath>
#include <limits>

#include "base/philox.h"
#include "dtype/half.h"
#include "tensor/elementwise.h"
#include "tensor/lines.h"

namespace veery::tensor::random {
namespace {

/// Number i of a stream; for keys [.., 2] of each key. Streams of one key differ in the third word
/// of the counter.
class Bits : public Operation {
 public:
  explicit Bits(uint32_t stream) : stream_(stream) {}
  std::string_view name() const override { return "random"; }
  bool runs_on_devices() const override { return true; }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Bits::stream_);
  }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    const Data key = contiguous(in[0], Dtype::kU32);
    const auto* words = elements<uint32_t>(key);
    Data data = new_data(out.front());
    auto* to = elements<uint32_t>(data);
    const int64_t keys = element_count(in[0].spec->shape) / 2;
    const int64_t count = keys == 0 ? 0 : element_count(out.front().shape) / keys;
    if (TensorDevice* kernels = current_kernels()) {
      for (int64_t i = 0; i < keys; ++i)
        kernels->random_bits(words + i * 2, stream_, to + i * count, count);
      return {std::move(data)};
    }
    const int64_t blocks = (count + 3) / 4;
    each_line(keys * blocks, 16, [&](int64_t line) {
      const int64_t key_index = line / blocks, block = line % blocks;
      const PhiloxBlock made =
          philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), stream_, 0}},
                 words[key_index * 2], words[key_index * 2 + 1]);
      for (int64_t i = block * 4; i < std::min(count, block * 4 + 4); ++i)
        to[key_index * count + i] = made.numbers[i % 4];
    });
    return {std::move(data)};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    return {make(Bits(stream_), {in[0]},
                 {with_first(in.size(), out.front().shape), out.front().dtype})};
  }
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>,
                          const std::vector<bool>&) const override {
    return {Tensor{}};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor>) const override {
    return {Tensor{}};
  }

 private:
  uint32_t stream_;
};

constexpr uint32_t kNumbers = 0, kKeys = 1;

Tensor stream(std::string_view function, const Tensor& key, const Shape& shape, uint32_t number) {
  require(function, key);
  if (key.shape() != Shape{2} || key.dtype() != Dtype::kU32)
    fail(ErrorKind::kInput, "{}: the key is {} {}, expected u32 [2]", function, name(key.dtype()),
         text(key.shape()));
  check_shape(function, shape);
  return make(Bits(number), {key}, {shape, Dtype::kU32});
}

void require_floats(std::string_view function, Dtype type) {
  if (!is_float(type))
    fail(ErrorKind::kInput, "{}: type {}, expected floats", function, name(type));
}

// Numbers in (0, 1): the middles of 2^23 intervals, exact in f32.
Tensor open_uniform(std::string_view function, const Tensor& key, const Shape& shape, Dtype type) {
  require_floats(function, type);
  const Dtype wide = type == Dtype::kF64 ? type : Dtype::kF32;
  const Tensor whole = astype(bitwise_right_shift(stream(function, key, shape, kNumbers), 9), wide);
  return (whole + 0.5) * 0x1p-23;
}

// The number before `high` in steps of f16 or bf16, whose bits are `bits` for `high`, rounded.
uint16_t half_before(uint16_t bits) {
  if ((bits & 0x7fff) == 0) return 0x8001;
  return static_cast<uint16_t>((bits & 0x8000) != 0 ? bits + 1 : bits - 1);
}
// The largest number of a type that is less than `high`.
double largest_below(double high, Dtype type) {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  if (type == Dtype::kF64) return std::nextafter(high, kLeast);
  const auto x = static_cast<float>(high);
  if (type == Dtype::kF32) return x < high ? x : std::nextafter(x, static_cast<float>(kLeast));
  const auto value = [&](uint16_t half) {
    return static_cast<double>(type == Dtype::kF16 ? f16_to_f32(half) : bf16_to_f32(half));
  };
  const uint16_t half = type == Dtype::kF16 ? f32_to_f16(x) : f32_to_bf16(x);
  return value(half) < high ? value(half) : value(half_before(half));
}

}  // namespace

Tensor key(uint64_t seed) {
  return Tensor::of<uint32_t>({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

Tensor split(const Tensor& key, int64_t count) { return stream("split", key, {count, 2}, kKeys); }

Tensor bits(const Tensor& key, const Shape& shape) { return stream("bits", key, shape, kNumbers); }

Tensor uniform(const Tensor& key, const Shape& shape, double low, double high, Dtype type) {
  require_floats("uniform", type);
  if (!(low <= high)) fail(ErrorKind::kInput, "uniform: from {} to {}", low, high);
  const Dtype wide = type == Dtype::kF64 ? type : Dtype::kF32;
  const Tensor unit = astype(bitwise_right_shift(bits(key, shape), 8), wide) * 0x1p-24;
  const Tensor numbers = astype(unit * (high - low) + low, type);
  return low < high ? minimum(numbers, largest_below(high, type)) : numbers;  // after rounding
}

Tensor normal(const Tensor& key, const Shape& shape, double mean, double deviation, Dtype type) {
  const Tensor u = open_uniform("normal", key, shape, type);
  return astype(erfinv(u * 2 - 1) * (std::sqrt(2.0) * deviation) + mean, type);
}

Tensor truncated_normal(const Tensor& key, const Shape& shape, double low, double high,
                        Dtype type) {
  require_floats("truncated_normal", type);
  if (!(low < high)) fail(ErrorKind::kInput, "truncated_normal: from {} to {}", low, high);
  // Near 1, erf has no digits left: the upper tail is drawn as the lower one.
  if (low > 0) return -truncated_normal(key, shape, -high, -low, type);
  const double a = std::erf(low / std::sqrt(2.0)), b = std::erf(high / std::sqrt(2.0));
  const Tensor u = open_uniform("truncated_normal", key, shape, Dtype::kF64);
  return astype(clip(erfinv(u * (b - a) + a) * std::sqrt(2.0), low, high), type);
}

Tensor randint(const Tensor& key, const Shape& shape, int64_t low, int64_t high, Dtype type) {
  const auto range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (low >= high || range > (uint64_t{1} << 32))
    fail(ErrorKind::kInput, "randint: from {} to below {}, expected 1 to 2^32 numbers", low, high);
  if (!is_integer(type)) fail(ErrorKind::kInput, "randint: type {}, expected integers", name(type));
  for (const int64_t bound : {low, high - 1}) require_fit("randint", bound, type);
  // The upper bits of a product of 32 random bits with the range; i64 holds the product of at most
  // 2^31, so that the range is multiplied in two parts.
  const Tensor random = astype(bits(key, shape), Dtype::kI64);
  const auto upper = static_cast<int64_t>(range >> 16),
             lower = static_cast<int64_t>(range & 0xffff);
  const Tensor product = random * upper + bitwise_right_shift(random * lower, 16);
  return astype(bitwise_right_shift(product, 16) + low, type);
}

Tensor bernoulli(const Tensor& key, const Tensor& probability) {
  require("bernoulli", probability);
  return less(uniform(key, probability.shape()), probability);
}

Tensor gumbel(const Tensor& key, const Shape& shape, Dtype type) {
  return astype(-log(-log(open_uniform("gumbel", key, shape, type))), type);
}

Tensor categorical(const Tensor& key, const Tensor& logits, int axis) {
  require("categorical", logits);
  return argmax(logits + gumbel(key, logits.shape()), axis);
}

Tensor permutation(const Tensor& key, int64_t count) { return argsort(bits(key, {count})); }

}  // namespace veery::tensor::random
