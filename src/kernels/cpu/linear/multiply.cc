// The loops of all products: panels times groups of quantised activations. Compiled once and shared
// by linears, heads and experts.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/multiply.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>
#include <bit>

#include "kernels/cpu/linear/epilogue-inl.h"
#include "kernels/cpu/linear/multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// A panel: its packed parts, and the same codes expanded to bytes if a microkernel needs that.
struct Panel {
  int weight;
  const std::byte* packed[kMostParts];
  const std::byte* expanded;
};

// Returns a panel. If it has to be expanded, writes that to `free` and advances `free`.
Panel use_panel(const Product& p, int i, int64_t panel, std::byte*& free) {
  const Weight& w = p.weights[i];
  Panel out = {i, {}, nullptr};
  for (int k = 0; k < w.kernels->parts; ++k) out.packed[k] = w.part(k, panel);
  out.expanded = out.packed[0];
  if (p.expands(i)) {
    out.expanded = free;
    w.kernels->expand(out.packed, p.cols, free);
    free += round_up(w.kernels->expanded_bytes(p.cols), 64);
  }
  return out;
}

ActivationGroup activations_of(const Product& p, std::byte* base, const Panel& panel,
                               int64_t group) {
  const Activations kind = p.weights[panel.weight].kernels->activations;
  return activation_group(kind, p.group(base, static_cast<int>(kind), group), p.cols,
                          group_width(p.group_rows(group)));
}

// A microkernel and the number of panels that it multiplies at once.
struct Chosen {
  DirectFn fn;
  int panels;
};
// Returns the microkernel for most of the next `count` panels (4, 2 or 1). Panels are combined only
// if their weights have the same microkernel.
HWY_INLINE Chosen choose_direct(const Product& p, const Panel* panels, int count, int width) {
  const auto fn = [&](int i, int log) {
    return p.weights[panels[i].weight].kernels->direct[log][width];
  };
  for (int log = 2; log > 0; --log) {
    const DirectFn first = fn(0, log);
    if (count < 1 << log || first == nullptr) continue;
    int same = 1;
    while (same < 1 << log && fn(same, log) == first) ++same;
    if (same == 1 << log) return {first, same};
  }
  return {fn(0, 0), 1};
}

// Multiplies a group of rows with `count` panels, which belong to one weight or alternate between
// the two weights of a gate. y: [count][8][16], complete after the last part of the columns.
void multiply_group(const Product& p, std::byte* base, int64_t group, const Panel* panels,
                    int count, Share part, float* y) {
  const auto kernels = [&](int i) -> const PanelKernels& {
    return *p.weights[panels[i].weight].kernels;
  };
  const int w = group_width(p.group_rows(group));
  if (w == kGroupRows && !p.packed && count == 2 && kernels(0).pair != nullptr &&
      kernels(0).pair == kernels(1).pair) {
    kernels(0).pair(panels[0].expanded, panels[1].expanded,
                    activations_of(p, base, panels[0], group), p.cols, part, y);
    return;
  }
  if (part.end != p.cols) return;
  const int width = std::countr_zero(static_cast<unsigned>(w));
  for (int i = 0; i < count;) {
    const PanelKernels& k = kernels(i);
    const ActivationGroup g = activations_of(p, base, panels[i], group);
    float* out = y + i * kGroupRows * kLanes;
    if (w == kGroupRows && !(p.packed && k.direct[0][3] != nullptr)) {
      k.tile(panels[i].expanded, g, p.cols, out);
      ++i;
      continue;
    }
    const Chosen chosen = choose_direct(p, panels + i, count - i, width);
    const std::byte* data[kMostPanels * kMostParts];
    const std::byte** next = data;
    for (const Panel* panel = panels + i; panel < panels + i + chosen.panels; ++panel)
      if (k.direct_expanded)
        *next++ = panel->expanded;
      else
        for (int n = 0; n < k.parts; ++n) *next++ = panel->packed[n];
    const int64_t between = chosen.panels / (p.gated ? 2 : 1) - 1;
    const Prefetch ahead = {p.ahead,
                            std::max<int64_t>(between, 0) * p.weights[panels[i].weight].stride};
    chosen.fn(data, g, p.cols, group == 0 ? ahead : Prefetch(), out);
    i += chosen.panels;
  }
}

// Prefetches slice `index` of `count` of the next packed panels into the L2 cache.
HWY_INLINE void fetch_next(const Product& p, int i, Share panels, int64_t index, int64_t count) {
  for (int k = i; k < (p.gated ? 2 : i + 1); ++k) {
    const Weight& w = p.weights[k];
    for (int part = 0; part < w.kernels->parts; ++part) {
      const int64_t bytes = (panels.end - panels.begin) * w.parts[part].stride;
      const std::byte* from = w.part(part, panels.begin);
      for (int64_t at = bytes * index / count / 64 * 64; at < bytes * (index + 1) / count; at += 64)
        __builtin_prefetch(from + at, 0, 2);
    }
  }
}

// The panels that are multiplied together: `count` panels of output i, starting with `panel`. If
// gated, these panels of both weights.
struct PanelSet {
  int i = 0;
  int64_t panel = -1;
  int count = 0;
  Panel all[kMostPanels];
};
void open_panels(const Product& p, std::byte* scratch, int i, int64_t panel, int64_t end,
                 PanelSet& set) {
  const int weights = p.gated ? 2 : 1;
  if (set.i == i && set.panel == panel) return;
  set.i = i;
  set.panel = panel;
  set.count = static_cast<int>(std::min(p.step(i), end - panel));
  std::byte* free = scratch + kMostGroups * kPairBytes;
  for (int n = 0; n < set.count * weights; ++n)
    set.all[n] = use_panel(p, p.gated ? n % 2 : i, panel + n / weights, free);
}

// Multiplies groups [groups.begin, groups.end) of rows with a set of panels. Columns are processed
// in parts that fit the L1 cache. The `next` panels are prefetched meanwhile, 1 / `of` of them with
// each group.
void multiply_set(const Product& p, std::byte* base, std::byte* scratch, const PanelSet& set,
                  Share groups, Share next, int64_t of, const Finish& finish) {
  constexpr int kSecond = kGroupRows * kLanes;
  const int weights = p.gated ? 2 : 1;
  const int count = set.count * weights;
  auto* sums = reinterpret_cast<float*>(scratch);
  const int64_t columns = p.part_columns(set.i);
  // Partial sums of every group are kept only if the columns are processed in several parts.
  const int64_t stride = columns < p.cols ? 2 * kSecond : 0;
  for (Share part = {0, count == 2 ? columns : p.cols}; part.begin < p.cols;
       part = {part.end, std::min(p.cols, part.end + columns)}) {
    for (int64_t group = groups.begin; group < groups.end; ++group) {
      const int64_t row = group * p.group_size;
      const int rows = p.group_rows(group);
      float* y = sums + (group - groups.begin) * stride;
      if (part.begin == 0 && !p.packed) fetch_next(p, set.i, next, group % of, of);
      if (part.end == p.cols) finish.fetch(set.i, set.panel, row, rows);
      multiply_group(p, base, group, set.all, count, part, y);
      if (part.end < p.cols) continue;
      for (int n = 0; n < set.count; ++n, y += weights * kSecond)
        finish(set.i, set.panel + n, row, rows, y, y + kSecond);
    }
  }
}

// The work items of multiply_shared(): a set of panels times a slice of a block of rows. Slices are
// short, so that workers finish at nearly the same time.
constexpr int64_t kSliceGroups = 16;
struct Items {
  const Product& p;
  int i;
  Share panels;

  int64_t steps() const { return (panels.end - panels.begin + p.step(i) - 1) / p.step(i); }
  int64_t slices() const { return (p.block_groups + kSliceGroups - 1) / kSliceGroups; }
  int64_t blocks() const { return (p.groups() + p.block_groups - 1) / p.block_groups; }
  int64_t count() const { return blocks() * steps() * slices(); }

  void multiply(int64_t item, std::byte* base, std::byte* scratch, PanelSet& set,
                const Finish& finish) const {
    const int64_t slice = item % slices() * kSliceGroups;
    const int64_t panel = panels.begin + item / slices() % steps() * p.step(i);
    const int64_t block = item / slices() / steps() * p.block_groups;
    const int64_t end = std::min(p.groups(), block + p.block_groups);
    const Share groups = {block + slice, std::min(end, block + slice + kSliceGroups)};
    if (groups.begin >= groups.end) return;
    open_panels(p, scratch, i, panel, panels.end, set);
    multiply_set(p, base, scratch, set, groups,
                 {panel + p.step(i), std::min(panel + 2 * p.step(i), panels.end)}, p.block_groups,
                 finish);
  }
};

}  // namespace

void multiply_panels(const Product& p, std::byte* base, std::byte* scratch, int i, Share panels,
                     const Epilogue& epilogue) {
  const Finish finish = {epilogue, p};
  const int64_t step = p.step(i);
  PanelSet set;
  for (int64_t block = 0; block < p.groups(); block += p.block_groups) {
    const Share groups = {block, std::min(p.groups(), block + p.block_groups)};
    for (int64_t panel = panels.begin; panel < panels.end; panel += step) {
      open_panels(p, scratch, i, panel, panels.end, set);
      multiply_set(p, base, scratch, set, groups,
                   {panel + step, std::min(panel + 2 * step, panels.end)}, p.block_groups, finish);
    }
  }
}

void multiply_shared(const Product& p, std::byte* base, const Worker& worker,
                     const Epilogue& epilogue) {
  const Finish finish = {epilogue, p};
  PanelSet set;
  const auto items_of = [&](int owner, int i) {
    return Items{p, i, p.share_of(i, {owner, worker.count})};
  };
  const auto count = [&](int owner) {
    int64_t sum = 0;
    for (int i = 0; i < p.outputs(); ++i) sum += items_of(owner, i).count();
    return sum;
  };
  take_items(worker, count, [&](int owner, int64_t item) {
    int i = 0;
    for (int64_t n; item >= (n = items_of(owner, i).count()); ++i) item -= n;
    items_of(owner, i).multiply(item, base, worker.scratch, set, finish);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
