#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/smem/gemm_exact_smem.h"
#include "kernels/gpu/launches.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

constexpr int kFewPairs = 8, kManyPairs = 32;  // of a group
constexpr int kMostAlone = 64;                 // pairs that are multiplied one by one
constexpr int kPanelWarps = 4;

// The kernels of a format, in the order of kernel_list.h.
enum Way { kRow, kFew, kMany, kWays };
KernelId kernel_of(Format format, Way way, bool gated) {
  return static_cast<KernelId>(static_cast<int>(KernelId::experts_row_q8) +
                               2 * (kWays * (format - kQ8) + way) + (gated ? 1 : 0));
}

// One mixture: its sizes, and where things lie in its work.
struct Mixture {
  const Dispatch& d;
  const MoeAttr& attr = d.as<MoeAttr>();
  int64_t rows, pairs, hidden, outputs, most_groups;
  bool exact;               // x and the weights as floats
  bool cores, many, alone;  // alone: without groups
  size_t groups = 0, group, count, order, expert, gate, x, h, h_forms, products, bytes;

  Mixture(const Dispatch& dispatch, int64_t row_count, bool exactly,
          const Machine* machine = nullptr)
      : d(dispatch),
        rows(row_count),
        pairs(rows * attr.used),
        hidden(d.in[MoeIn::kDown].cols),
        outputs(d.out().cols),
        exact(exactly),
        cores(machine != nullptr && has_cores(*machine)),
        many(pairs >= int64_t{kManyPairs} / 2 * attr.experts),
        alone(pairs <= kMostAlone && !chained(MoeIn::kGate) && !chained(MoeIn::kDown) &&
              attr.limit == 0 && !attr.gate_input) {
    for (const int i : {MoeIn::kGate, MoeIn::kDown})
      alone = alone && machine != nullptr && fits_experts_row(*machine, format(i), d.in[i].cols);
    most_groups = std::min<int64_t>(pairs, attr.experts) + pairs / most();
    bytes = 64;
    const auto take = [&](size_t& place, int64_t size) {
      place = bytes;
      bytes += aligned(static_cast<size_t>(size));
    };
    take(group, most_groups * int64_t{sizeof(PairGroup)});
    take(count, int64_t{attr.experts} * 4);
    take(order, pairs * 4);
    take(expert, pairs * 4);
    take(gate, pairs * 4);
    take(x, rows * form_bytes(MoeIn::kGate));
    take(h, pairs * hidden * 4);
    take(h_forms, pairs * form_bytes(MoeIn::kDown));
    take(products, pairs * outputs * 4);
  }
  int most() const { return many ? kManyPairs : kFewPairs; }
  Format format(int weight) const { return *format_of(d.in[weight].dtype); }
  bool chained(int weight) const { return exact || by_chain(format(weight), cores); }
  FormKind kind(int weight) const {
    return exact ? FormKind::kFloat : form_of(format(weight), cores);
  }
  // Without a machine: of the one where most are wanted.
  int64_t form_bytes(int weight) const {
    return form_places(kind(weight), d.in[weight].cols).bytes;
  }

  template <typename T>
  T* at(size_t place) const {
    return reinterpret_cast<T*>(d.work + place);
  }
  Pairs made_pairs() const {
    return {at<int32_t>(groups),
            at<PairGroup>(group),
            at<int32_t>(count),
            at<int32_t>(order),
            at<int32_t>(expert),
            at<float>(gate),
            most()};
  }
  Form form(int weight, size_t place) const {
    return {at<uint8_t>(place), form_bytes(weight), kind(weight), d.in[weight].cols, 0};
  }
  Weight weight(int i) const {
    const Operand& w = d.in[i];
    return {reinterpret_cast<const uint8_t*>(w.data), w.stride,
            static_cast<int32_t>(w.rows / w.stack), w.cols, format(i)};
  }
};

void record_pairs(const Mixture& m, Recorder& to) {
  constexpr int kWarps = 8;
  const PairArguments a{to.run, to.matrix(m.d.in[MoeIn::kGates]), m.made_pairs(), m.attr.experts,
                        m.attr.used};
  to.add(KernelId::pick_experts,
         {.blocks_x = static_cast<int>((m.rows + kWarps - 1) / kWarps), .threads = kWarps * kWarp},
         a);
  if (m.alone) return;
  const LaunchSize size{
      .blocks_x = m.attr.experts, .threads = kWarps * kWarp, .shared = kWarps * sizeof(int32_t)};
  to.add(KernelId::count_experts, size, a);
  to.add(KernelId::group_experts, size, a);
}

void record_form(const Matrix& x, const Form& form, int64_t rows, Recorder& to) {
  PrepareArguments a{to.run, x, {}, form, nullptr};
  a.parts = 1;
  to.add(KernelId::prepare,
         {.blocks_x = static_cast<int>(rows),
          .threads = 256,
          .shared = static_cast<size_t>((form.cols / 32 + 3) / 4 * 4 + 4) * sizeof(float)},
         a);
}

// Blocks of threads for each pair, which have as many panels each.
void record_alone(const Mixture& m, ExpertArguments a, Recorder& to) {
  a.room = experts_room(to.machine, a.weight[0].format);
  const RowPlan plan =
      row_plan(a.weight[0].format, 1, a.form.cols, false, a.room, RowPlan::kExpertWarps);
  const int64_t panels = (a.weight[0].rows + 15) / 16, room = 2 * int64_t{to.machine.processors()};
  const int64_t each = (panels * m.pairs + room - 1) / room;
  to.add(kernel_of(a.weight[0].format, kRow, a.gated != 0),
         {.blocks_x = static_cast<int>((panels + each - 1) / each),
          .blocks_y = static_cast<int>(m.pairs),
          .threads = RowPlan::kExpertThreads,
          .shared = static_cast<size_t>(plan.bytes)},
         a);
}

void record_product(const Mixture& m, int first, const Form& form, float* out, Recorder& to) {
  const bool gated = first == MoeIn::kGate;
  ExpertArguments a{to.run, m.made_pairs(), form};
  for (int i = 0; i < (gated ? 2 : 1); ++i) {
    a.weight[i] = m.weight(first + i);
    a.bias[i] = m.d.in[first + i + MoeIn::kGateBias - MoeIn::kGate].row<float>(0);
  }
  a.rows = m.d.in[MoeIn::kX].rows;
  a.used = m.attr.used;
  a.gated = gated ? 1 : 0;
  a.rows_each = gated ? m.attr.used : 1;
  a.gate_input = m.attr.gate_input ? 1 : 0;
  a.limit = m.attr.limit, a.alpha = m.attr.alpha;
  if (gated) a.activation = activate_of(m.attr.activation);
  a.out = out;
  if (m.alone) return record_alone(m, a, to);
  const int panels = (a.weight[0].rows + 15) / 16, groups = static_cast<int>(m.most_groups);
  if (m.chained(first)) return record_fma(a, panels, groups, m.exact, to);
  to.add(kernel_of(a.weight[0].format, m.many ? kMany : kFew, gated),
         {.blocks_x = (panels + kPanelWarps - 1) / kPanelWarps,
          .blocks_y = groups,
          .threads = kPanelWarps * kWarp},
         a);
}

}  // namespace

void record_fma(const ExpertArguments& a, int panels, int groups, bool exact, Recorder& to) {
  const bool flushed = a.weight[0].format == kBF16 && !exact;
  to.add(flushed ? KernelId::experts_flushed : KernelId::experts_fma,
         {.blocks_x = (panels + 1) / 2,
          .blocks_y = groups,
          .threads = kWarp,
          .shared = size_t{fma_bytes(kFmaRows)}},
         a);
}

bool takes_route(const Dispatch& d, const KernelChoice&) {
  constexpr int kMostExperts = 2048;  // of which shared memory has room
  return is_matrix(d.in[RouteIn::kScores]) && absent_or_matrix(d.in[RouteIn::kBias]) &&
         is_matrix(d.out()) && d.out().cols <= kMostExperts;
}
void record_route(const Dispatch& d, Recorder& to) {
  const auto& attr = d.as<RouteAttr>();
  RouteArguments a{to.run, to.matrix(d.in[RouteIn::kScores]), to.matrix(d.out()),
                   d.in[RouteIn::kBias].row<float>(0)};
  a.used = attr.used, a.sigmoid = attr.sigmoid ? 1 : 0, a.normalise = attr.normalise ? 1 : 0;
  a.groups = attr.groups, a.groups_used = attr.groups_used, a.group_best = attr.group_best;
  a.scale = attr.scale, a.jitter = attr.jitter;
  to.add(KernelId::route,
         {.blocks_x = static_cast<int>(to.most(d.out().rows)),
          .threads = kWarp,
          .shared = (4 * static_cast<size_t>(d.out().cols) + 1) * sizeof(float)},
         a);
}

bool takes_moe(const Dispatch& d, const KernelChoice&) {
  for (int i : {MoeIn::kGate, MoeIn::kUp, MoeIn::kDown}) {
    const Operand& w = d.in[i];
    if (w.layout != Layout::kPanels || w.stack != d.as<MoeAttr>().experts || !format_of(w.dtype) ||
        !absent_or_matrix(d.in[i + MoeIn::kGateBias - MoeIn::kGate]))
      return false;
  }
  return is_matrix(d.in[MoeIn::kX]) && is_matrix(d.in[MoeIn::kGates]) &&
         absent_or_matrix(d.in[MoeIn::kResidual]) && is_matrix(d.out()) &&
         format_of(d.in[MoeIn::kGate].dtype) == format_of(d.in[MoeIn::kUp].dtype);
}
bool takes_moe_exact(const Dispatch& d, const KernelChoice& choice) {
  return choice.exact && takes_moe(d, choice);
}
template <bool kExact>
size_t moe_work(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = d.in[MoeIn::kX].rows;
  return Mixture(d, rows < 0 ? run.rows : rows, kExact).bytes;
}
template <bool kExact>
void record_moe(const Dispatch& d, Recorder& to) {
  const Matrix x = to.matrix(d.in[MoeIn::kX]);
  const Mixture m(d, to.most(x.rows), kExact, &to.machine);
  record_pairs(m, to);
  const Form forms = m.form(MoeIn::kGate, m.x);
  record_form(x, forms, m.rows, to);
  record_product(m, MoeIn::kGate, forms, m.at<float>(m.h), to);
  const Form hidden = m.form(MoeIn::kDown, m.h_forms);
  record_form(
      {m.at<float>(m.h), m.hidden, Run::times(x.rows, m.attr.used), static_cast<int32_t>(m.hidden)},
      hidden, m.pairs, to);
  record_product(m, MoeIn::kDown, hidden, m.at<float>(m.products), to);
  AddExpertsArguments a{to.run,
                        m.made_pairs(),
                        m.at<float>(m.products),
                        to.matrix(d.in[MoeIn::kResidual]),
                        to.matrix(d.out()),
                        m.attr.used,
                        m.attr.gate_input ? 1 : 0};
  LaunchSize size{.blocks_x = static_cast<int>((m.outputs + 255) / 256),
                  .blocks_y = static_cast<int>(m.rows),
                  .threads = 256};
  to.add(KernelId::add_experts, size, a);
}
template size_t moe_work<false>(const Dispatch&, const RunExtent&);
template size_t moe_work<true>(const Dispatch&, const RunExtent&);
template void record_moe<false>(const Dispatch&, Recorder&);
template void record_moe<true>(const Dispatch&, Recorder&);

}  // namespace veery::gpu
