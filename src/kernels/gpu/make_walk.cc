#include "kernels/gpu/make_walk.h"

#include <algorithm>

namespace veery::gpu {
namespace {

bool within(KernelId kernel, KernelId first, KernelId last) {
  return kernel >= first && kernel <= last;
}
// linear_row, with weights that are not floats.
bool is_product(KernelId kernel) { return name(kernel).starts_with("linear_row_"); }

class WalkMaker {
 public:
  WalkMaker(int blocks, uint64_t* best) : blocks_(blocks), best_(best) {}

  bool add(const Launch& launch) {
    if (launch.size.blocks_z != 1) return false;
    if (is_product(launch.kernel)) return multiply(launch.as<LinearArguments>());
    if (within(launch.kernel, KernelId::attend_blocks_bf16_1, KernelId::attend_rows_f32_2))
      return attend(launch);
    if (within(launch.kernel, KernelId::attend_step_bf16_1, KernelId::attend_step_f32_2))
      return attend_step(launch);
    return other(launch);
  }
  std::vector<WalkRow> take() && { return std::move(rows_); }

 private:
  bool multiply(LinearArguments a) {
    const Format format = a.weight[0].format;
    const FormatInfo f = format_info(format);
    if (format > kK8M16) return false;  // walk_linear() knows no other
    const int terms = a.form.two_terms != 0 ? 2 : 1;
    const FormPlaces places = form_places(a.form.kind, a.form.cols);
    if (a.x == nullptr) return false;
    WalkRow row{.kind = WalkKind::kLinear};
    WalkLinear& to = row.linear;
    to = {};
    if (a.best != nullptr) a.best = best_;
    to.product = a;
    to.places = places;
    if (!place(to, terms) || (a.gated != 0 && terms == 2)) return false;
    const int panels = panels_of(a);
    to.first = static_cast<int32_t>(panels_ % blocks_);
    to.each_block = panels / blocks_, to.more_blocks = panels % blocks_;
    panels_ += panels;
    to.each = row_units(format);
    to.unit_bytes = unit_places(format).bytes;
    to.units = a.form.cols / f.block;
    to.chunks = (to.units + to.each - 1) / to.each;
    to.prepares = 1;
    if (WalkRow* before = sibling(to)) {
      before->waits = 0;
      to.prepares = before->linear.product.form.kind == a.form.kind ? 0 : 1;
    }
    return push(row);
  }
  static int panels_of(const LinearArguments& a) {
    int panels = 0;
    for (int i = 0; i < (a.gated != 0 ? 1 : a.weights); ++i) panels += (a.weight[i].rows + 15) / 16;
    return panels;
  }
  // What lies where in shared memory.
  static bool place(WalkLinear& row, int terms) {
    const bool normed = row.product.norm.weight != nullptr;
    const int cols = row.product.form.cols, row_bytes = 4 * cols;
    int at = row.places.bytes * terms;
    row.late = at;
    at = row.largest() + (cols / 8 + 15) / 16 * 16;
    row.staged = at, at += normed ? row_bytes : 0;
    return at <= WalkPlaces::kWork;
  }
  // The row before, where it is a product of the same x that this one does not depend on.
  WalkRow* sibling(const WalkLinear& own) {
    if (rows_.empty() || rows_.back().kind != WalkKind::kLinear) return nullptr;
    const WalkLinear& before = rows_.back().linear;
    const bool is = before.product.x == own.product.x &&
                    before.product.norm.weight == own.product.norm.weight &&
                    before.product.form.two_terms == own.product.form.two_terms &&
                    before.product.best == nullptr && !before.product.residual &&
                    !own.product.residual && before.product.out.data != own.product.x;
    return is ? &rows_.back() : nullptr;
  }

  // The row that makes queries, and attention to them (attend_step()).
  bool attend_step(const Launch& launch) {
    const int at = static_cast<int>(launch.kernel) - static_cast<int>(KernelId::attend_step_bf16_1);
    const auto a = launch.as<StepArguments>();
    if (at % 2 != 0 || launch.size.shared > WalkPlaces::kWork) return false;
    WalkRow rope = row_of(launch, WalkKind::kQkvRope);
    rope.qkv_rope = a.rope;
    rope.type = 1;
    push(rope);
    rows_.back().waits = 0;
    WalkRow row = row_of(launch, WalkKind::kAttend);
    row.type = at / 2;
    row.attend = a.attend;
    return push(row);
  }
  bool attend(const Launch& launch) {
    const int at =
        static_cast<int>(launch.kernel) - static_cast<int>(KernelId::attend_blocks_bf16_1);
    const int kernel = at % 2, type = at / 2 / 2, wide = at / 2 % 2;
    const auto a = launch.as<AttendArguments>();
    if (kernel == 1 || wide != 0 || a.staged == 0 || launch.size.shared > WalkPlaces::kWork)
      return false;
    WalkRow row = row_of(launch, WalkKind::kAttend);
    row.type = type;
    row.attend = a;
    return push(row);
  }

  template <typename A>
  bool other(const Launch& launch, WalkKind kind, A WalkRow::*member) {
    WalkRow row = row_of(launch, kind);
    row.*member = launch.as<A>();
    return push(row);
  }
  bool other(const Launch& launch) {
    if (launch.size.shared > WalkPlaces::kWork) return false;
    switch (launch.kernel) {
      case KernelId::embed: return other(launch, WalkKind::kEmbed, &WalkRow::embed);
      case KernelId::rms_norm: return other(launch, WalkKind::kRmsNorm, &WalkRow::rms_norm);
      case KernelId::layer_norm: return other(launch, WalkKind::kLayerNorm, &WalkRow::layer_norm);
      case KernelId::elementwise:
        return other(launch, WalkKind::kElementwise, &WalkRow::elementwise);
      case KernelId::select_rows:
        return other(launch, WalkKind::kSelectRows, &WalkRow::select_rows);
      case KernelId::argmax: return other(launch, WalkKind::kArgmax, &WalkRow::argmax);
      case KernelId::angles: return other(launch, WalkKind::kAngles, &WalkRow::angles);
      case KernelId::rope: return other(launch, WalkKind::kRope, &WalkRow::rope);
      case KernelId::cache_write:
        return other(launch, WalkKind::kCacheWrite, &WalkRow::cache_write);
      case KernelId::qkv_rope: return other(launch, WalkKind::kQkvRope, &WalkRow::qkv_rope);
      case KernelId::best: {
        WalkRow row = row_of(launch, WalkKind::kBest);
        row.best = launch.as<BestArguments>();
        row.best.best = best_;
        return push(row);
      }
      default: return false;
    }
  }
  static WalkRow row_of(const Launch& launch, WalkKind kind) {
    return {.kind = kind, .x = launch.size.blocks_x, .y = launch.size.blocks_y, .waits = 1};
  }
  bool push(WalkRow row) {
    row.waits = 1;
    rows_.push_back(row);
    return true;
  }

  int blocks_;
  uint64_t* best_;
  int64_t panels_ = 0;
  std::vector<WalkRow> rows_;
};

}  // namespace

std::optional<std::vector<WalkRow>> make_walk(const std::vector<Launch>& launches, int blocks,
                                              uint64_t* best) {
  WalkMaker maker(blocks, best);
  for (const Launch& launch : launches)
    if (!maker.add(launch)) return std::nullopt;
  return std::move(maker).take();
}

KernelId walk_kernel(const std::vector<WalkRow>& rows) {
  const bool blocks = std::ranges::any_of(rows, [](const WalkRow& row) {
    return row.kind == WalkKind::kLinear && row.linear.product.form.kind == FormKind::kPer32;
  });
  return blocks ? KernelId::walk_blocks : KernelId::walk;
}

LaunchSize walk_size(int blocks) {
  return {.blocks_x = blocks,
          .threads = WalkPlaces::kThreads,
          .shared = WalkPlaces::kBytes,
          .cooperative = true};
}

}  // namespace veery::gpu
