// fit_grid-inl.h: weighted least-squares search for blocks of grid points, by trying every point.
#if defined(VEERY_DTYPE_FIT_GRID_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_DTYPE_FIT_GRID_INL_H
#undef VEERY_DTYPE_FIT_GRID_INL_H
#else
#define VEERY_DTYPE_FIT_GRID_INL_H
#endif

#include <bit>

#include "dtype/grid_format.h"
#include "dtype/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Fits one block of 256. A lane is one point of kElements elements.
template <int kElements, int kDigits>
class GridFit {
 public:
  GridFit(const GridFormat& format, const float* x, const float* weights) : format_(format) {
    float values[256];
    std::memcpy(values, x, sizeof values);
    if (format_.signs) take_signs(values, weights);
    constexpr int kSetElements = kLanes * kElements;
    for (int s = 0; s < kSets; ++s)
      sets_[s].read(values + s * kSetElements,
                    weights == nullptr ? nullptr : weights + s * kSetElements, kLanes);
    if (weights != nullptr) return;
    V squares = {};
    for (const auto& set : sets_) squares += set.squares();
    const V mean = sum_over(squares, kLanes) * (1.0F / 256);
    for (auto& set : sets_) set.weigh_by_size(mean);
  }

  /// out.d is infinite if it does not fit f16.
  void run(GridBlock& out) {
    find_scales();
    start();
    for (int round = 0; round < format_.rounds; ++round) {
      improve_scales();
      if (!solve()) break;
    }
    write(out);
  }

 private:
  static constexpr int kHalf = kElements / 2;
  static constexpr int power(int base, int exponent) {
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
  }
  static constexpr int kHalves = power(kDigits, kHalf);
  static constexpr float kGridFactors[] = {1.0F, 1.1F};
  static constexpr int kSets = 256 / (kLanes * kElements);

  struct Found {
    V cost = {};  // squared error minus the sum of w x^2
    I point = {};
    I variant = {};
  };
  struct Sums {
    V qq = {}, xq = {};
  };

  int group() const { return format_.sub / kElements; }  // lanes per sub-block

  // Takes the signs, leaving magnitudes. If the number of minus signs must be even, the element
  // with the smallest weighted magnitude gets the wrong sign.
  void take_signs(float* x, const float* weights) {
    for (int g = 0; g < 32; ++g) {
      uint32_t bits = 0;
      int weakest = 0;
      float least_cost = 3e38F;
      for (int i = 0; i < 8; ++i) {
        float& value = x[8 * g + i];
        if (value < 0) bits |= 1U << i;
        value = std::fabs(value);
        const float cost = value * (weights == nullptr ? 1 : weights[8 * g + i]);
        if (cost < least_cost) weakest = i;
        least_cost = cost < least_cost ? cost : least_cost;
      }
      if (format_.even_signs && std::popcount(bits) % 2 != 0) {
        bits ^= 1U << weakest;
        x[8 * g + weakest] = -x[8 * g + weakest];
      }
      signs_[g] = static_cast<uint8_t>(bits);
    }
  }

  // Computes the cost of every combination of digits for the half of a point that begins at element
  // `begin`.
  void half_costs(const Blocks<kElements>& b, V scale, int variant, int begin, V* sums) const {
    V cost[kHalf][kDigits];
    for (int i = 0; i < kHalf; ++i)
      for (int k = 0; k < kDigits; ++k) {
        const V value =
            scale * format_.values[static_cast<size_t>(variant)][static_cast<size_t>(k)];
        cost[i][k] = b.w[begin + i] * value * (value - 2.0F * b.x[begin + i]);
      }
    for (int k = 0; k < kDigits; ++k) sums[k] = cost[0][k];
    int filled = kDigits;
    for (int i = 1; i < kHalf; ++i, filled *= kDigits)
      for (int k = kDigits - 1; k >= 0; --k)
        for (int low = 0; low < filled; ++low) sums[k * filled + low] = sums[low] + cost[i][k];
  }

  Found best_points(const Blocks<kElements>& b, V scale, int variant) const {
    alignas(64) V first[kHalves], second[kHalves];
    half_costs(b, scale, variant, 0, first);
    half_costs(b, scale, variant, kHalf, second);
    // Independent running minima hide the latency of the comparison.
    constexpr int kChains = 4;
    V cost[kChains];
    I point[kChains] = {};
    for (V& chain : cost) chain = broadcast(3e38F);
    const auto points = static_cast<int32_t>(format_.first.size());
    const uint8_t* left = format_.first.data();
    const uint8_t* right = format_.second.data();
    for (int32_t p = 0; p < points; p += kChains)
      for (int c = 0; c < kChains; ++c) {
        const V trial = first[left[p + c]] + second[right[p + c]];
        const I better = trial < cost[c];
        cost[c] = select(better, trial, cost[c]);
        point[c] = select(better, I{} + (p + c), point[c]);
      }
    Found found = {cost[0], point[0], I{} + variant};
    for (int c = 1; c < kChains; ++c) {
      const I better = cost[c] < found.cost;
      found.cost = select(better, cost[c], found.cost);
      found.point = select(better, point[c], found.point);
    }
    return found;
  }

  // Returns the best points of a set under `scale`. Points that share a variant get the one with
  // the smaller total cost.
  Found search(int s, V scale) const {
    Found best = best_points(sets_[s], scale, 0);
    if (format_.variants == 1) return best;
    const Found other = best_points(sets_[s], scale, 1);
    const I better =
        sum_over(other.cost, format_.variant_points) < sum_over(best.cost, format_.variant_points);
    best.cost = select(better, other.cost, best.cost);
    best.point = select(better, other.point, best.point);
    best.variant = select(better, other.variant, best.variant);
    return best;
  }

  Sums sums_of(int s, const Found& found) const {
    int32_t points[kLanes], variants[kLanes];
    std::memcpy(points, &found.point, sizeof points);
    std::memcpy(variants, &found.variant, sizeof variants);
    alignas(64) float values[kElements][kLanes];
    for (int j = 0; j < kLanes; ++j) {
      const auto& digits = format_.point_digits[static_cast<size_t>(points[j])];
      const auto& table = format_.values[static_cast<size_t>(variants[j])];
      for (int i = 0; i < kElements; ++i) values[i][j] = table[digits[static_cast<size_t>(i)]];
    }
    Sums sums;
    for (int i = 0; i < kElements; ++i) {
      const V value = load(values[i]);
      const V weighted = sets_[s].w[i] * value;
      sums.qq += weighted * value;
      sums.xq += weighted * sets_[s].x[i];
    }
    return sums;
  }

  // Finds the best real scale of each sub-block: first among several, rounding each element to its
  // nearest value, then with points of the grid.
  void find_scales() {
    constexpr float kFactors[] = {0.5F,  0.58F, 0.66F, 0.74F, 0.82F, 0.9F, 0.98F, 1.08F,
                                  1.18F, 1.3F,  1.45F, 1.6F,  1.8F,  2.1F, 2.5F};
    float top = 0;
    for (const float value : format_.values[0]) top = value > top ? value : top;
    for (int s = 0; s < kSets; ++s) {
      V power = {}, weight = {};
      for (int i = 0; i < kElements; ++i) {
        power += sets_[s].w[i] * sets_[s].x[i] * sets_[s].x[i];
        weight += sets_[s].w[i];
      }
      const V mean = sum_over(power, group()) * reciprocal(sum_over(weight, group()));
      float lanes[kLanes];
      store(mean, lanes);
      for (float& lane : lanes) lane = std::sqrt(lane) * format_.reach / top;
      const V usual = load(lanes);
      V best = {}, coarse = {};
      for (const float factor : kFactors) {
        const Sums sums = any_values(s, usual * factor);
        const V xq = sum_over(sums.xq, group());
        const V found = xq * reciprocal(sum_over(sums.qq, group()));
        const I better = found * xq > best;
        best = select(better, found * xq, best);
        coarse = select(better, found, coarse);
      }
      // The grid lacks most points with large values, so a different scale than the coarse one may
      // be better.
      best = V{};
      for (const float factor : kGridFactors) {
        const Sums sums = sums_of(s, search(s, coarse * factor));
        const V xq = sum_over(sums.xq, group());
        const V found = xq * reciprocal(sum_over(sums.qq, group()));
        const I better = (found * xq > best) & (found > 0.0F);
        best = select(better, found * xq, best);
        scale_[s] = select(better, found, scale_[s]);
      }
    }
  }

  // Accumulates sums with each element rounded to the nearest value of any variant.
  Sums any_values(int s, V scale) const {
    const V inverse = reciprocal(scale);
    Sums sums;
    for (int i = 0; i < kElements; ++i) {
      const V x = sets_[s].x[i] * inverse;
      V nearest_value = {}, least_error = broadcast(3e38F);
      for (int variant = 0; variant < format_.variants; ++variant)
        for (int k = 0; k < kDigits; ++k) {
          const V value =
              broadcast(format_.values[static_cast<size_t>(variant)][static_cast<size_t>(k)]);
          const I better = magnitude(x - value) < least_error;
          least_error = select(better, magnitude(x - value), least_error);
          nearest_value = select(better, value, nearest_value);
        }
      sums.qq += sets_[s].w[i] * nearest_value * nearest_value;
      sums.xq += sets_[s].w[i] * nearest_value * sets_[s].x[i];
    }
    return sums;
  }

  // Chooses d so that the largest scale gets the largest integer, and rounds the other scales.
  void start() {
    float largest = 0;
    for (const V& set : scale_) {
      float lanes[kLanes];
      store(set, lanes);
      for (const float lane : lanes) largest = lane > largest ? lane : largest;
    }
    d_ = f16_to_f32(f32_to_f16(largest / static_cast<float>(2 * format_.largest_scale + 1)));
    const V inverse = reciprocal(broadcast(d_));
    for (V& set : scale_) set = bounded(nearest((set * inverse - 1.0F) * 0.5F));
  }

  V bounded(V number) const {
    return lane_max(lane_min(number, broadcast(static_cast<float>(format_.largest_scale))), V{});
  }

  // Moves each sub-block's integer scale by one where that lowers the error.
  void improve_scales() {
    for (int s = 0; s < kSets; ++s) {
      const V before = scale_[s];
      V best = broadcast(3e38F);
      for (const float step : {0.0F, -1.0F, 1.0F}) {
        const V trial = bounded(before + step);
        const Found found = search(s, (2.0F * trial + 1.0F) * d_);
        const V cost = sum_over(found.cost, group());
        const I better = cost < best;
        best = select(better, cost, best);
        scale_[s] = select(better, trial, scale_[s]);
        found_[s].point = select(better, found.point, found_[s].point);
        found_[s].variant = select(better, found.variant, found_[s].variant);
      }
    }
  }

  // Solves the least squares problem of d for the current points; returns whether d changed.
  bool solve() {
    V qq = {}, xq = {};
    for (int s = 0; s < kSets; ++s) {
      const Sums sums = sums_of(s, found_[s]);
      const V number = 2.0F * scale_[s] + 1.0F;
      qq += number * number * sums.qq;
      xq += number * sums.xq;
    }
    float numerator[kLanes], denominator[kLanes];
    store(sum_over(xq, kLanes), numerator);
    store(sum_over(qq, kLanes), denominator);
    if (!(numerator[0] > 0) || !(denominator[0] > 0)) return false;
    const float d = f16_to_f32(f32_to_f16(numerator[0] / denominator[0]));
    const bool moved = d != d_;
    d_ = d;
    return moved;
  }

  void write(GridBlock& out) const {
    out.d = d_;
    std::memcpy(out.signs, signs_, sizeof signs_);
    for (int s = 0; s < kSets; ++s) {
      int32_t points[kLanes], variants[kLanes];
      float numbers[kLanes];
      std::memcpy(points, &found_[s].point, sizeof points);
      std::memcpy(variants, &found_[s].variant, sizeof variants);
      store(scale_[s], numbers);
      for (int j = 0; j < kLanes; ++j) {
        const int at = s * kLanes + j;
        out.points[at] = static_cast<uint16_t>(points[j]);
        out.variants[at] = static_cast<uint8_t>(variants[j]);
        out.scales[at / group()] = static_cast<int>(numbers[j]);
      }
    }
  }

  const GridFormat& format_;
  Blocks<kElements> sets_[kSets];
  uint8_t signs_[32] = {};
  float d_ = 0;
  V scale_[kSets] = {};  // real scales first, then integers s
  Found found_[kSets] = {};
};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif
