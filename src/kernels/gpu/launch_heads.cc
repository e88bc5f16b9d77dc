// Products of a matrix a head: mixtures of experts in which each row chooses all experts, one for
// each of its heads.
#include <algorithm>

#include "kernels/common/table.h"
#include "kernels/gpu/params/row_op_params.h"
#include "kernels/gpu/params/top_k_params.h"
#include "kernels/gpu/launches.h"
#include "kernels/gpu/packing/pack.h"

namespace veery::gpu {
namespace {

constexpr int kFewPairs = 8, kManyPairs = 32;  // of a group
constexpr int kMostAlone = 256;                // pairs that are multiplied one by one
constexpr int kPanelWarps = 4;

// Sizes, and where things lie in the work of an op.
struct Heads {
  const Dispatch& d;
  int32_t heads = d.as<HeadsAttr>().heads;
  int32_t in = d.in[HeadLinearIn::kWeight].cols;
  int32_t made = static_cast<int32_t>(d.in[HeadLinearIn::kWeight].rows / heads);
  Format format = *format_of(d.in[HeadLinearIn::kWeight].dtype);
  int64_t rows, pairs;
  bool exact;  // x and the weights as floats
  bool cores, many, alone;
  size_t group, order, expert, gate, x, forms, products, bytes = 64;

  Heads(const Dispatch& dispatch, int64_t row_count, bool exactly, const Machine* machine = nullptr)
      : d(dispatch),
        rows(row_count),
        pairs(rows * heads),
        exact(exactly),
        cores(machine != nullptr && has_cores(*machine)),
        many(rows >= kManyPairs / 2),
        alone(pairs <= kMostAlone && !chained() && machine != nullptr &&
              fits_experts_row(*machine, format, in)) {
    const auto take = [&](size_t& place, int64_t size) {
      place = bytes;
      bytes += aligned(static_cast<size_t>(size));
    };
    take(group, groups() * int64_t{sizeof(PairGroup)});
    take(order, pairs * 4);
    take(expert, pairs * 4);
    take(gate, pairs * 4);
    take(x, pairs * in * 4);
    take(forms, pairs * form_bytes());
    take(products, pairs * made * 4);
  }
  int most() const { return many ? kManyPairs : kFewPairs; }
  int64_t groups() const { return heads * ((rows + most() - 1) / most()); }
  bool chained() const { return exact || by_chain(format, cores); }
  FormKind kind() const { return exact ? FormKind::kFloat : form_of(format, cores); }
  int64_t form_bytes() const { return form_places(kind(), in).bytes; }
  template <typename T>
  T* at(size_t place) const {
    return reinterpret_cast<T*>(d.work + place);
  }
  Pairs made_pairs() const {
    return {at<int32_t>(0),      at<PairGroup>(group), nullptr, at<int32_t>(order),
            at<int32_t>(expert), at<float>(gate),      most()};
  }
  KernelId kernel() const {
    constexpr int kWays = 3;  // experts_row, experts, experts_many, each with its gated one
    const int way = alone ? 0 : many ? 2 : 1;
    return static_cast<KernelId>(static_cast<int>(KernelId::experts_row_q8) +
                                 2 * (kWays * (format - kQ8) + way));
  }
};

void record_products(const Heads& h, const Form& form, Recorder& to) {
  const Operand& w = h.d.in[HeadLinearIn::kWeight];
  ExpertArguments a{to.run, h.made_pairs(), form};
  a.weight[0] = {reinterpret_cast<const uint8_t*>(w.data), w.stride, h.made, w.cols, h.format};
  a.rows = h.d.in[HeadLinearIn::kX].rows;
  a.used = h.heads, a.rows_each = 1;
  a.out = h.at<float>(h.products);
  const int panels = (h.made + 15) / 16;
  if (h.alone) {
    a.room = experts_room(to.machine, h.format);
    const RowPlan plan = row_plan(h.format, 1, h.in, false, a.room, RowPlan::kExpertWarps);
    to.add(h.kernel(),
           {.blocks_x = (panels + RowPlan::kExpertWarps - 1) / RowPlan::kExpertWarps,
            .blocks_y = static_cast<int>(h.pairs),
            .threads = RowPlan::kExpertThreads,
            .shared = static_cast<size_t>(plan.bytes)},
           a);
    return;
  }
  if (h.chained()) return record_fma(a, panels, static_cast<int>(h.groups()), h.exact, to);
  to.add(h.kernel(),
         {.blocks_x = (panels + kPanelWarps - 1) / kPanelWarps,
          .blocks_y = static_cast<int>(h.groups()),
          .threads = kPanelWarps * kWarp},
         a);
}

}  // namespace

bool takes_head_linear(const Dispatch& d, const KernelChoice&) {
  const Operand& w = d.in[HeadLinearIn::kWeight];
  return is_matrix(d.in[HeadLinearIn::kX]) && w.layout == Layout::kPanels &&
         w.stack == d.as<HeadsAttr>().heads && format_of(w.dtype) && is_matrix(d.out());
}
bool takes_head_linear_exact(const Dispatch& d, const KernelChoice& choice) {
  return choice.exact && takes_head_linear(d, choice);
}
template <bool kExact>
size_t head_linear_work(const Dispatch& d, const RunExtent& run) {
  const int64_t rows = d.in[HeadLinearIn::kX].rows;
  return Heads(d, rows < 0 ? run.rows : rows, kExact).bytes;
}
template <bool kExact>
void record_head_linear(const Dispatch& d, Recorder& to) {
  const Matrix x = to.matrix(d.in[HeadLinearIn::kX]);
  const Heads h(d, to.most(x.rows), kExact, &to.machine);
  const int blocks = static_cast<int>(h.rows);
  to.add(KernelId::split_heads, {.blocks_x = blocks, .threads = 256},
         SplitHeadsArguments{to.run, x, h.at<float>(h.x), h.heads, h.in});
  to.add(KernelId::head_pairs, {.blocks_x = h.heads, .threads = 128},
         HeadPairsArguments{to.run, h.made_pairs(), x.rows, h.heads});
  const Form form = {h.at<uint8_t>(h.forms), h.form_bytes(), h.kind(), h.in, 0};
  PrepareArguments prepare{
      to.run, {h.at<float>(h.x), h.in, Run::times(x.rows, h.heads), h.in}, {}, form, nullptr};
  prepare.parts = 1;
  to.add(KernelId::prepare,
         {.blocks_x = static_cast<int>(h.pairs),
          .threads = 128,
          .shared = static_cast<size_t>((h.in / 32 + 3) / 4 * 4 + 4) * sizeof(float)},
         prepare);
  record_products(h, form, to);
  to.add(KernelId::join_heads, {.blocks_x = blocks, .threads = 256},
         JoinHeadsArguments{to.run, x, to.matrix(d.out()), h.at<float>(h.products), h.heads, h.in,
                            h.made});
}
template size_t head_linear_work<false>(const Dispatch&, const RunExtent&);
template size_t head_linear_work<true>(const Dispatch&, const RunExtent&);
template void record_head_linear<false>(const Dispatch&, Recorder&);
template void record_head_linear<true>(const Dispatch&, Recorder&);

// Ops on rows

bool takes_rows(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[0]) && absent_or_matrix(d.in[1]) && is_matrix(d.out());
}
bool takes_linear_one(const Dispatch& d, const KernelChoice&) {
  const auto& attr = d.as<LinearAttr>();
  const Operand& w = d.in[LinearIn::kWeight];
  return is_matrix(d.in[LinearIn::kX]) && !d.in[LinearIn::kNorm] && attr.weights == 1 &&
         attr.gate == Activation::kNone && is_matrix(w) && w.rows == 1 &&
         absent_or_matrix(d.in[LinearIn::kBias]) && absent_or_matrix(d.in[LinearIn::kResidual]) &&
         is_matrix(d.out());
}
void record_linear_one(const Dispatch& d, Recorder& to) {
  constexpr int kThreads = 64;
  const int64_t rows = to.most(d.out().rows);
  to.add(KernelId::linear_one,
         {.blocks_x = static_cast<int>((rows + kThreads - 1) / kThreads), .threads = kThreads},
         LinearOneArguments{to.run, to.matrix(d.in[LinearIn::kX]),
                            d.in[LinearIn::kWeight].row<float>(0),
                            d.in[LinearIn::kBias].row<float>(0), d.as<LinearAttr>().scale,
                            to.matrix(d.in[LinearIn::kResidual]), to.matrix(d.out())});
}
bool takes_embed_rows(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[EmbedIn::kIds], DType::kI32) && is_matrix(d.in[EmbedIn::kWeight]) &&
         is_matrix(d.out());
}
void record_embed_rows(const Dispatch& d, Recorder& to) {
  to.add(KernelId::embed_rows,
         {.blocks_x = static_cast<int>(to.most(d.out().rows)), .threads = 256},
         EmbedRowsArguments{to.run, to.ids(d.in[EmbedIn::kIds]), to.matrix(d.in[EmbedIn::kWeight]),
                            to.matrix(d.out()), d.as<ScaleAttr>().factor});
}
void record_l2_norm(const Dispatch& d, Recorder& to) {
  to.add(KernelId::l2_norm,
         {.blocks_x = static_cast<int>(to.most(d.out().rows)), .threads = kWarp, .shared = 4096},
         L2NormArguments{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out()),
                         d.as<NormAttr>().eps});
}
void record_concat(const Dispatch& d, Recorder& to) {
  to.add(KernelId::concat, {.blocks_x = static_cast<int>(to.most(d.out().rows)), .threads = 256},
         ConcatArguments{to.run, to.matrix(d.in[BinaryIn::kA]), to.matrix(d.in[BinaryIn::kB]),
                         to.matrix(d.out())});
}
// Not over rows, as gradients are.
bool takes_sum_to(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[BinaryIn::kA]) && is_matrix(d.out()) &&
         d.in[BinaryIn::kA].rows == d.out().rows;
}
void record_sum_to(const Dispatch& d, Recorder& to) {
  to.add(KernelId::sum_to, {.blocks_x = static_cast<int>(to.most(d.out().rows)), .threads = 64},
         SumToArguments{to.run, to.matrix(d.in[BinaryIn::kA]), to.matrix(d.out())});
}
void record_shift(const Dispatch& d, Recorder& to) {
  to.add(KernelId::shift, {.blocks_x = static_cast<int>(to.most(d.out().rows)), .threads = 256},
         ShiftArguments{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out()),
                        d.as<ShiftAttr>().by});
}
void record_pool(const Dispatch& d, Recorder& to) {
  to.add(KernelId::pool,
         {.blocks_x = (d.out().cols + 127) / 128,
          .blocks_y = static_cast<int>(to.most(d.out().rows)),
          .threads = 128},
         PoolArguments{to.run, to.matrix(d.in[UnaryIn::kX]), to.matrix(d.out()),
                       static_cast<int32_t>(d.as<PoolAttr>().kind)});
}

bool takes_top_k(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.outputs[TopKOut::kValues]) &&
         is_matrix(d.outputs[TopKOut::kIndices], DType::kI32) &&
         is_matrix(d.outputs[TopKOut::kMass]) && d.as<TopKAttr>().count <= TopKPlaces::kThreads;
}
void record_top_k(const Dispatch& d, Recorder& to) {
  using P = TopKPlaces;
  const Operand& x = d.in[UnaryIn::kX];
  const auto matrix = [&](int output) { return to.matrix(d.outputs[static_cast<size_t>(output)]); };
  const auto rows = static_cast<size_t>(to.most(d.out().rows));
  const int pieces = P::pieces(x.cols);
  // Enough for all processors, a power of two, each with a piece at least.
  const int most =
      std::min({2 * to.machine.processors() / static_cast<int>(rows), pieces, int{P::kMostBlocks}});
  int blocks = 1;
  while (2 * blocks <= most) blocks *= 2;
  const auto memory = [&](size_t bytes) {
    return to.memory.emplace_back(to.machine.allocate(rows * bytes)).data();
  };
  const TopKArguments a{to.run,
                        to.matrix(x),
                        matrix(TopKOut::kValues),
                        matrix(TopKOut::kIndices),
                        matrix(TopKOut::kMass),
                        d.as<TopKAttr>().count,
                        reinterpret_cast<uint64_t*>(memory(P::kThreads * sizeof(uint64_t))),
                        reinterpret_cast<uint64_t*>(memory(P::kMost * sizeof(uint64_t))),
                        reinterpret_cast<double*>(memory(static_cast<size_t>(pieces) * 8)),
                        reinterpret_cast<uint32_t*>(memory(2 * sizeof(uint32_t))),
                        nullptr,
                        nullptr,
                        nullptr,
                        0};
  const LaunchSize size{.blocks_x = blocks,
                        .blocks_y = static_cast<int>(rows),
                        .threads = P::kThreads,
                        .shared = P::kBytes};
  to.add(KernelId::top_k_groups, size, a);
  if (to.machine.has(KernelId::top_k)) return to.add(KernelId::top_k, size, a);
  to.add(KernelId::top_k_sums, size, a);
  to.add(KernelId::top_k_largest,
         {.blocks_y = size.blocks_y, .threads = P::kThreads, .shared = P::kBytes}, a);
}

}  // namespace veery::gpu
