// Attention against its definition, differences and composed functions.
#include <algorithm>

#include "tensor/fast/checks.h"

namespace veery::tensor::fast {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

struct Case {
  int64_t batch, heads, kv_heads, queries, keys, key_size, value_size;
  AttentionOptions options;
};

Tensor some_mask(const Shape& shape, bool additive, uint64_t seed) {
  const Tensor x = numbers(shape, Dtype::kF64, seed, -3, 3);
  return additive ? where(x > 2, -INFINITY, x) : x < 1.5;
}

// Cases that cross the ends of tiles and blocks, with all options.
std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({1, 1, 1, 1, 1, 1, 1, {}});
  all.push_back({1, 2, 1, 3, 4, 0, 5, {.scale = 1}});
  all.push_back({2, 4, 2, 5, 7, 8, 6, {.causal = true}});
  all.push_back({1, 6, 2, 100, 250, 16, 40, {.scale = 0.3, .causal = true}});
  all.push_back({1, 4, 1, 70, 130, 33, 33, {.causal = true, .window = 20}});
  all.push_back({1, 2, 2, 130, 70, 12, 5, {.causal = true}});  // the first queries see nothing
  all.push_back({2, 2, 1, 110, 120, 20, 20, {.window = 15}});
  all.push_back({1, 3, 3, 50, 200, 9, 17, {.mask = some_mask({50, 200}, false, 51)}});
  all.push_back({2, 4, 2, 60, 99, 32, 64, {.mask = some_mask({2, 1, 60, 99}, true, 52)}});
  all.push_back({2, 4, 2, 3, 97, 5, 7, {.mask = some_mask({4, 1, 97}, true, 53)}});
  all.push_back({1,
                 4,
                 2,
                 9,
                 40,
                 16,
                 16,
                 {.causal = true,
                  .window = 6,
                  .mask = some_mask({9, 40}, false, 54),
                  .sinks = numbers({4}, Dtype::kF64, 55)}});
  all.push_back({2, 2, 2, 30, 20, 4, 4, {.causal = true, .sinks = numbers({2}, Dtype::kF64, 56)}});
  return all;
}

// The inputs of a case: q, k, v, and the mask and the sinks if there are.
std::vector<Tensor> inputs_of(const Case& c, Dtype type) {
  std::vector<Tensor> in{numbers({c.batch, c.heads, c.queries, c.key_size}, type, 1),
                         numbers({c.batch, c.kv_heads, c.keys, c.key_size}, type, 2),
                         numbers({c.batch, c.kv_heads, c.keys, c.value_size}, type, 3)};
  const auto add = [&](const std::optional<Tensor>& x) {
    if (x) in.push_back(x->dtype() == Dtype::kBool ? *x : astype(*x, type));
  };
  add(c.options.mask);
  add(c.options.sinks);
  return in;
}
Fn function_of(const Case& c) {
  return [c](std::span<const Tensor> in) {
    AttentionOptions options = c.options;
    if (options.mask) options.mask = in[3];
    if (options.sinks) options.sinks = in.back();
    return scaled_dot_product_attention(in[0], in[1], in[2], options);
  };
}

// The definition, with the mask broadcast to the scores.
class Expected {
 public:
  Expected(const Case& c, std::span<const Tensor> in)
      : c_(c),
        q_(in[0].values<double>()),
        k_(in[1].values<double>()),
        v_(in[2].values<double>()),
        scale_(c.options.scale.value_or(1 / std::sqrt(static_cast<double>(c.key_size)))) {
    if (c.options.sinks) sinks_ = in.back().values<double>();
    if (!c.options.mask) return;
    const Tensor mask =
        in[3].dtype() == Dtype::kBool ? where(in[3], zeros({}, Dtype::kF64), -INFINITY) : in[3];
    mask_ = broadcast_to(mask, {c.batch, c.heads, c.queries, c.keys}).values<double>();
  }

  Tensor result() const {
    std::vector<double> out;
    for (int64_t b = 0; b < c_.batch; ++b)
      for (int64_t h = 0; h < c_.heads; ++h)
        for (int64_t i = 0; i < c_.queries; ++i) add_row(b, h, i, out);
    return Tensor::of<double>(std::span<const double>(out),
                              {c_.batch, c_.heads, c_.queries, c_.value_size});
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t distance = i + c_.keys - c_.queries - j;
    const int64_t window = c_.options.window.value_or(INT64_MAX);
    if (c_.options.causal && distance < 0) return -INFINITY;
    if (distance >= window || -distance >= window) return -INFINITY;
    double sum = 0;
    const int64_t line = (b * c_.heads + h) * c_.queries + i, key = key_line(b, h, j);
    for (int64_t d = 0; d < c_.key_size; ++d)
      sum += q_[at(line * c_.key_size + d)] * k_[at(key * c_.key_size + d)];
    return sum * scale_ + (mask_.empty() ? 0 : mask_[at(line * c_.keys + j)]);
  }
  int64_t key_line(int64_t b, int64_t h, int64_t j) const {
    return (b * c_.kv_heads + h / (c_.heads / c_.kv_heads)) * c_.keys + j;
  }
  void add_row(int64_t b, int64_t h, int64_t i, std::vector<double>& out) const {
    std::vector<double> scores, sums(at(c_.value_size));
    for (int64_t j = 0; j < c_.keys; ++j) scores.push_back(score(b, h, i, j));
    double most = sinks_.empty() ? -INFINITY : sinks_[at(h)], total = 0;
    for (const double s : scores) most = std::max(most, s);
    if (!sinks_.empty()) total = std::exp(sinks_[at(h)] - most);
    for (int64_t j = 0; j < c_.keys && most > -INFINITY; ++j) {
      const double weight = std::exp(scores[at(j)] - most);
      total += weight;
      for (int64_t d = 0; d < c_.value_size; ++d)
        sums[at(d)] += weight * v_[at(key_line(b, h, j) * c_.value_size + d)];
    }
    for (const double sum : sums) out.push_back(total == 0 ? 0 : sum / total);
  }

  const Case& c_;
  std::vector<double> q_, k_, v_, mask_, sinks_;
  double scale_;
};

std::string name_of(const Case& c, Dtype type) {
  return std::string(name(type)) + " " + std::to_string(c.queries) + " x " + std::to_string(c.keys);
}

TEST(FastAttention, IsItsDefinitionInEveryType) {
  for (const Case& c : cases())
    for (const Dtype type : {Dtype::kF64, Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
      const std::vector<Tensor> in = inputs_of(c, type);
      const Tensor found = function_of(c)(in);
      EXPECT_EQ(found.dtype(), type);
      EXPECT_LE(distance(found, Expected(c, in).result()),
                type == Dtype::kF32 ? 5e-6 : tolerance(type))
          << name_of(c, type);
    }
}

TEST(FastAttention, RoundsOnce) {
  for (const Case& c : cases()) {
    const std::vector<Tensor> in = inputs_of(c, Dtype::kBF16);
    std::vector<Tensor> wide;
    for (const Tensor& x : in)
      wide.push_back(x.dtype() == Dtype::kBool ? x : astype(x, Dtype::kF32));
    EXPECT_EQ(function_of(c)(in).values<float>(),
              astype(function_of(c)(wide), Dtype::kBF16).values<float>());
  }
}

TEST(FastAttention, HasDerivativesOfAnyOrder) {
  for (const Case& c : cases()) {
    const std::vector<Tensor> in = inputs_of(c, Dtype::kF64);
    expect_derivatives(name_of(c, Dtype::kF64), function_of(c), in, in[0].size() <= 200);
  }
}

// Gradients of f32 and bf16 are near those of f64, which the differences check.
TEST(FastAttention, GradientsOfNarrowTypesAreThoseOfF64) {
  for (const Case& c : cases())
    for (const Dtype type : {Dtype::kF32, Dtype::kBF16}) {
      const std::vector<Tensor> in = inputs_of(c, type);
      std::vector<Tensor> wide;
      for (const Tensor& x : in)
        wide.push_back(x.dtype() == Dtype::kBool ? x : astype(x, Dtype::kF64));
      const Tensor t = numbers(function_of(c)(in).shape(), type, 57, -1, 1);
      const std::vector<Tensor> found = gradients(function_of(c), in, t);
      const std::vector<Tensor> expected = gradients(function_of(c), wide, astype(t, Dtype::kF64));
      for (size_t i = 0; i < in.size(); ++i)
        EXPECT_LE(distance(found[i], expected[i]), type == Dtype::kF32 ? 1e-5 : 4e-3)
            << name_of(c, type) << ": input " << i;
    }
}

TEST(FastAttention, AgreesWithComposedFunctions) {
  const Tensor q = numbers({2, 3, 40, 16}, Dtype::kF32, 58);
  const Tensor k = numbers({2, 3, 40, 16}, Dtype::kF32, 59);
  const Tensor v = numbers({2, 3, 40, 16}, Dtype::kF32, 60);
  const Tensor seen = tril(ones({40, 40}, Dtype::kF32)) > 0;
  const Tensor scores = where(seen, matmul(q, swapaxes(k, 2, 3)) * 0.25, -INFINITY);
  const Tensor expected = matmul(softmax(scores), v);
  EXPECT_LE(distance(scaled_dot_product_attention(q, k, v, {.causal = true}), expected), 2e-6);
  EXPECT_LE(distance(scaled_dot_product_attention(q, k, v, {.mask = seen}), expected), 2e-6);
}

// Views need no copy and give the same bits: heads from a row of heads, keys of one head for all,
// reversed values.
TEST(FastAttention, DoesNotDependOnTheLayout) {
  for (const Dtype type : {Dtype::kF32, Dtype::kBF16, Dtype::kF64}) {
    const Tensor q = transpose(numbers({2, 90, 4, 24}, type, 61), {0, 2, 1, 3});
    const Tensor k =
        broadcast_to(swapaxes(numbers({2, 1, 24, 110}, type, 62), 2, 3), {2, 2, 110, 24});
    const Tensor v = flip(numbers({2, 2, 110, 40}, type, 63), {2, 3});
    const Tensor mask = swapaxes(numbers({110, 90}, type, 64), 0, 1);
    const Fn fn = [](auto at) {
      return scaled_dot_product_attention(at[0], at[1], at[2],
                                          {.causal = true, .mask = at[3], .sinks = at[4]});
    };
    const Tensor sinks = slice(numbers({8}, type, 65), {{{}, {}, 2}});
    const Tensor views[] = {q, k, v, mask, sinks};
    std::vector<Tensor> copies;
    for (const Tensor& x : views) copies.push_back(copied(x));
    EXPECT_EQ(fn(views).values<double>(), fn(copies).values<double>());
    const Tensor t = swapaxes(numbers({2, 90, 4, 40}, type, 66), 1, 2);
    const std::vector<Tensor> found = gradients(fn, views, t);
    const std::vector<Tensor> expected = gradients(fn, copies, copied(t));
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i].values<double>(), expected[i].values<double>()) << i;
  }
}

// Neither pass keeps the scores of all pairs, which would be 64 MiB here.
TEST(FastAttention, NeedsNoMatrixOfScores) {
  const Tensor in[] = {numbers({1, 4, 2048, 16}, Dtype::kF32, 67),
                       numbers({1, 2, 2048, 16}, Dtype::kF32, 68),
                       numbers({1, 2, 2048, 16}, Dtype::kF32, 69)};
  for (const Tensor& x : in) x.eval();
  const Fn fn = [](auto at) {
    return scaled_dot_product_attention(at[0], at[1], at[2], {.causal = true, .window = 64});
  };
  clear_cache();
  reset_peak_memory();
  const size_t before = memory_use().active;
  const std::vector<Tensor> found = gradients(fn, in, ones({1, 4, 2048, 16}));
  eval(found);
  EXPECT_LT(memory_use().peak - before, size_t{4} << 20);
}

TEST(FastAttention, QueriesThatSeeNothingGiveZeros) {
  const auto inf = std::numeric_limits<double>::infinity();
  const Tensor hidden = Tensor::of<double>({0, -inf, 0}, {3, 1});
  for (const Dtype type : {Dtype::kF32, Dtype::kF64, Dtype::kBF16})
    for (const bool has_sinks : {false, true})
      for (const Tensor& mask : {hidden, hidden > -1}) {
        std::vector<Tensor> in{numbers({1, 2, 3, 4}, type, 70), numbers({1, 2, 5, 4}, type, 71),
                               numbers({1, 2, 5, 6}, type, 72)};
        const Fn fn = [&](auto at) {
          AttentionOptions options{.mask = mask};
          if (has_sinks) options.sinks = ones({2}, type);
          return scaled_dot_product_attention(at[0], at[1], at[2], options);
        };
        const Tensor row = slice(fn(in), {{}, {}, {1, 2, 1}});
        EXPECT_EQ(row.values<double>(), std::vector<double>(12));
        const Tensor t = numbers({1, 2, 3, 6}, type, 73);
        const std::vector<Tensor> found = gradients(fn, in, t);
        EXPECT_EQ(slice(found[0], {{}, {}, {1, 2, 1}}).template values<double>(),
                  std::vector<double>(8));
        for (const Tensor& x : found) EXPECT_TRUE(all(isfinite(x)).item<bool>());
        const std::vector<Tensor> tangents{ones_like(in[0]), ones_like(in[1]), ones_like(in[2])};
        EXPECT_TRUE(all(isfinite(jvp(as_function(fn), in, tangents).second[0])).item<bool>());
      }
}

TEST(FastAttention, SpecialNumbers) {
  const Tensor v = numbers({1, 1, 120, 3}, Dtype::kF32, 74);
  // NaN reaches the rows that see it, and no other.
  std::vector<float> keys(120, 1);
  keys[100] = NAN;
  const Tensor k = Tensor::of<float>(std::span<const float>(keys), {1, 1, 120, 1});
  const std::vector<double> y =
      scaled_dot_product_attention(ones({1, 1, 120, 1}), k, v, {.causal = true}).values<double>();
  for (size_t i = 0; i < 120; ++i) EXPECT_EQ(std::isnan(y[i * 3]), i >= 100) << i;
  // Scores beyond the range of exp().
  const Tensor q = full({1, 1, 2, 1}, 1e4);
  const Tensor own = astype(reshape(arange(0, 120), {1, 1, 120, 1}), Dtype::kF32);
  EXPECT_EQ(scaled_dot_product_attention(q, own, v).values<float>()[0], v.values<float>()[357]);
  // A large sink takes all of the weight.
  EXPECT_EQ(scaled_dot_product_attention(q * 0, own, v, {.sinks = full({1}, 500)}).values<float>(),
            std::vector<float>(6));
}

TEST(FastAttention, TakesEmptyTensorsAndPromotes) {
  for (const Case& c : {Case{0, 2, 1, 3, 4, 5, 6, {}}, Case{1, 2, 1, 0, 4, 5, 6, {}},
                        Case{1, 2, 1, 3, 0, 5, 6, {}}, Case{1, 2, 1, 3, 4, 0, 6, {}},
                        Case{1, 2, 1, 3, 4, 5, 0, {}}, Case{1, 0, 0, 3, 4, 5, 6, {}}}) {
    const std::vector<Tensor> in = inputs_of(c, Dtype::kF32);
    const Tensor y = function_of(c)(in);
    EXPECT_EQ(y.shape(), (Shape{c.batch, c.heads, c.queries, c.value_size}));
    const auto size = static_cast<size_t>(y.size());
    if (c.keys == 0) {
      EXPECT_EQ(y.values<float>(), std::vector<float>(size));
    }
    const std::vector<Tensor> found = gradients(function_of(c), in, ones(y.shape()));
    const std::vector<Tensor> forward = jvp(as_function(function_of(c)), in, in).second;
    EXPECT_EQ(forward[0].values<float>().size(), size);
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_EQ(found[i].shape(), in[i].shape());
      EXPECT_TRUE(all(isfinite(found[i])).item<bool>());
    }
  }
  const Tensor q = ones({1, 1, 2, 4}, Dtype::kBF16), k = ones({1, 1, 2, 4});
  EXPECT_EQ(scaled_dot_product_attention(q, k, q).dtype(), Dtype::kF32);
  EXPECT_EQ(scaled_dot_product_attention(q, q, q, {.mask = ones({2, 2})}).dtype(), Dtype::kBF16);
}

TEST(FastAttention, NamesWhatIsWrong) {
  const std::string start = "scaled_dot_product_attention: ";
  const auto message = [&](const Shape& q, const Shape& k, const Shape& v,
                           const AttentionOptions& options = {}) {
    return message_of([&] { scaled_dot_product_attention(ones(q), ones(k), ones(v), options); });
  };
  const Shape q{2, 4, 3, 8}, k{2, 2, 5, 8};
  EXPECT_EQ(message_of([] {
              scaled_dot_product_attention(ones({1, 1, 1, 1}), Tensor(), ones({1, 1, 1, 1}));
            }),
            start + "an argument is no tensor");
  EXPECT_EQ(message_of([] { scaled_dot_product_attention(ones({1}), ones({1}), arange(0, 1)); }),
            start + "v of i32, expected floats");
  EXPECT_EQ(message({4, 3, 8}, k, k),
            start + "q [4, 3, 8], k [2, 2, 5, 8] and v [2, 2, 5, 8], expected 4 dimensions");
  EXPECT_EQ(message({1, 4, 3, 8}, k, k),
            start + "q [1, 4, 3, 8], k [2, 2, 5, 8] and v [2, 2, 5, 8], expected one batch size");
  EXPECT_EQ(message({2, 4, 3, 9}, k, k),
            start +
                "q [2, 4, 3, 9], k [2, 2, 5, 8] and v [2, 2, 5, 8], expected one size of "
                "queries and keys");
  EXPECT_EQ(message(q, k, {2, 2, 6, 8}),
            start +
                "q [2, 4, 3, 8], k [2, 2, 5, 8] and v [2, 2, 6, 8], expected as many values "
                "as keys");
  EXPECT_EQ(message({2, 3, 3, 8}, k, k),
            start +
                "q [2, 3, 3, 8], k [2, 2, 5, 8] and v [2, 2, 5, 8], expected a number of "
                "query heads that 2 divides");
  EXPECT_EQ(message(q, k, k, {.scale = NAN}), start + "scale is nan, expected a finite number");
  EXPECT_EQ(message(q, k, k, {.window = 0}), start + "window is 0, expected 1 or more");
  EXPECT_EQ(message(q, k, k, {.mask = Tensor()}), start + "an argument is no tensor");
  EXPECT_EQ(message(q, k, k, {.mask = ones({5}, Dtype::kI32)}),
            start + "mask of i32, expected floats or bool");
  EXPECT_EQ(message(q, k, k, {.mask = ones({4, 5})}),
            start + "mask [4, 5] does not broadcast to [2, 4, 3, 5]");
  EXPECT_EQ(message(q, k, k, {.mask = ones({1, 2, 4, 3, 5})}),
            start + "mask [1, 2, 4, 3, 5] does not broadcast to [2, 4, 3, 5]");
  EXPECT_EQ(message(q, k, k, {.sinks = ones({2})}),
            start + "sinks have the shape [2], expected [4]");
  EXPECT_EQ(message(q, k, k, {.sinks = ones({4}, Dtype::kBool)}),
            start + "sinks of bool, expected floats");
}

}  // namespace
}  // namespace veery::tensor::fast
