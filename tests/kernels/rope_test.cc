#include <cstring>

#include "kernels/kernel_runner.h"

namespace veery::test {
namespace {

std::vector<Target> fast_targets() {
  std::vector<Target> targets = supported_targets();
  targets.pop_back();
  return targets;
}

TEST(RopeAngles, FastIsTheReferenceAtEveryPosition) {
  const Matrix positions = indices({0, 1, 2, 100, 511, 512, 4095, 32768, 131071, 1048575});
  for (const AnglesAttr& attr :
       {AnglesAttr{.dims = 64}, AnglesAttr{.dims = 6, .theta = 1e6},
        AnglesAttr{.dims = 128, .theta = 5e5, .scaling = RopeScaling::kLlama3, .factor = 32},
        AnglesAttr{.dims = 64, .scaling = RopeScaling::kYarn, .factor = 8, .attention_factor = 1.2},
        AnglesAttr{.dims = 64, .scaling = RopeScaling::kLinear, .factor = 4}}) {
    Matrix expected(10, attr.dims);
    run(Op::kRopeAngles, {positions.operand}, expected.operand, attr, plain_slots(10));
    Matrix first(10, attr.dims);
    run(Op::kRopeAngles, {positions.operand}, first.operand, attr, plain_slots(10),
        {.target = fast_targets()[0]});
    expect_near(first, expected, 1e-7);
    for (Target target : fast_targets()) {
      Matrix y(10, attr.dims);
      run(Op::kRopeAngles, {positions.operand}, y.operand, attr, plain_slots(10),
          {.target = target, .workers = 3});
      expect_same_bits(y, first, name(target).data());
    }
  }
}

TEST(Rope, FastIsTheReference) {
  Random random(2);
  const Matrix positions = indices({0, 3, 77, 1000, 1001});
  for (bool interleaved : {false, true}) {
    for (int dims : {2, 12, 32, 64, 80}) {
      for (float sign : {1.0F, -1.0F}) {
        const RopeAttr attr{3, dims, interleaved, sign};
        const int32_t cols = 3 * (dims + (dims % 32 == 0 ? 0 : 4));
        const Matrix x = random_matrix(5, cols, random);
        Matrix angles(5, dims);
        run(Op::kRopeAngles, {positions.operand}, angles.operand, AnglesAttr{.dims = dims},
            plain_slots(5));
        Matrix expected(5, cols);
        run(Op::kRope, {x.operand, angles.operand}, expected.operand, attr, plain_slots(5));
        for (Target target : fast_targets()) {
          Matrix y(5, cols);
          run(Op::kRope, {x.operand, angles.operand}, y.operand, attr, plain_slots(5),
              {.target = target, .workers = 2});
          expect_same_bits(y, expected);
          for (int r = 0; r < 5; ++r) std::copy_n(x[r], cols, y[r]);
          run(Op::kRope, {y.operand, angles.operand}, y.operand, attr, plain_slots(5),
              {.target = target});
          expect_same_bits(y, expected, "in place");
        }
      }
    }
  }
}

struct QkvCase {
  QkvRopeAttr attr;
  DType type;
  bool norms;
};

TEST(QkvRope, FastIsTheReferenceAndItsOwnParts) {
  for (const QkvCase& c : {QkvCase{{9, 3, 64, 64, false, 0}, DType::kF32, false},
                           QkvCase{{4, 1, 80, 32, true, 1e-6F}, DType::kF16, true},
                           QkvCase{{2, 2, 20, 20, false, 1e-6F}, DType::kF32, true},
                           QkvCase{{3, 1, 36, 8, true, 0}, DType::kF16, false}}) {
    Random random(3);
    const auto& attr = c.attr;
    const int n = attr.head_dim;
    const int kv = attr.kv_heads * n;
    Batch batch(2, 600);
    batch.add(0, 250, 11);
    batch.add(1, 0, 3);
    const Slots slots = batch.slots();
    const int rows = slots.rows;
    const Matrix qkv = random_matrix(rows, attr.heads * n + 2 * kv, random);
    const Matrix positions = indices(batch.positions);
    Matrix angles(rows, attr.dims);
    run(Op::kRopeAngles, {positions.operand}, angles.operand, AnglesAttr{.dims = attr.dims}, slots);
    const Matrix q_norm = random_matrix(1, n, random);
    const Matrix k_norm = random_matrix(1, n, random);
    const auto one = [&](RunWith with, Matrix& q, const Cache& keys, const Cache& values) {
      run(Op::kQkvRope,
          {qkv.operand, angles.operand, keys.operand, values.operand,
           c.norms ? q_norm.operand : Operand{}, c.norms ? k_norm.operand : Operand{}},
          q.operand, attr, slots, with);
    };
    const auto columns = [&](int begin, int count) {
      Operand o = qkv.operand;
      o.data += begin * 4;
      o.cols = count;
      return o;
    };
    const auto near = [&](const Cache& a, const Cache& b) {
      const size_t bytes = static_cast<size_t>(a.operand.stride * batch.page_count);
      for (size_t i = 0; i < bytes; i += c.type == DType::kF16 ? 2 : 4) {
        uint32_t x = 0;
        uint32_t y = 0;
        std::memcpy(&x, a.bytes->data() + i, c.type == DType::kF16 ? 2 : 4);
        std::memcpy(&y, b.bytes->data() + i, c.type == DType::kF16 ? 2 : 4);
        if (x == y) continue;  // NaN stays where nothing is written
        if (c.type == DType::kF16)
          ASSERT_LE(std::abs(static_cast<int>(x) - static_cast<int>(y)), 1);
        else
          ASSERT_NEAR(__builtin_bit_cast(float, x), __builtin_bit_cast(float, y), 1e-5);
      }
    };
    Matrix expected(rows, attr.heads * n);
    const Cache keys(batch, true, c.type, attr.kv_heads, n),
        values(batch, false, c.type, attr.kv_heads, n);
    one({}, expected, keys, values);
    for (Target target : fast_targets()) {
      Matrix q(rows, attr.heads * n), k(rows, kv), q_apart(rows, attr.heads * n);
      const Cache keys1(batch, true, c.type, attr.kv_heads, n),
          values1(batch, false, c.type, attr.kv_heads, n);
      const Cache keys2(batch, true, c.type, attr.kv_heads, n),
          values2(batch, false, c.type, attr.kv_heads, n);
      one({.target = target, .workers = 3}, q, keys1, values1);
      expect_near(q, expected, 1e-5);
      near(keys1, keys);
      near(values1, values);
      // The same by norm, rope and cache_write.
      const RunWith with{.target = target, .workers = 2};
      Operand q_in = columns(0, attr.heads * n);
      Operand k_in = columns(attr.heads * n, kv);
      if (c.norms) {
        run(Op::kRmsNorm, {q_in, q_norm.operand}, q_apart.operand, NormAttr{attr.eps, attr.heads},
            slots, with);
        run(Op::kRmsNorm, {k_in, k_norm.operand}, k.operand, NormAttr{attr.eps, attr.kv_heads},
            slots, with);
        q_in = q_apart.operand;
        k_in = k.operand;
      }
      run(Op::kRope, {q_in, angles.operand}, q_apart.operand,
          RopeAttr{attr.heads, attr.dims, attr.interleaved}, slots, with);
      run(Op::kRope, {k_in, angles.operand}, k.operand,
          RopeAttr{attr.kv_heads, attr.dims, attr.interleaved}, slots, with);
      run(Op::kCacheWrite, {k.operand, keys2.operand}, keys2.operand, {}, slots, with);
      run(Op::kCacheWrite, {columns(attr.heads * n + kv, kv), values2.operand}, values2.operand, {},
          slots, with);
      expect_same_bits(q, q_apart, "q");
      const size_t bytes = static_cast<size_t>(keys.operand.stride * batch.page_count);
      EXPECT_TRUE(
          std::equal(keys1.bytes->data(), keys1.bytes->data() + bytes, keys2.bytes->data()));
      EXPECT_TRUE(
          std::equal(values1.bytes->data(), values1.bytes->data() + bytes, values2.bytes->data()));
    }
  }
}

}  // namespace
}  // namespace veery::test
