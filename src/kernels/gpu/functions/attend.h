// attend.h: attention over pages with the bits of kernels/cpu/attend: blocks of 128 positions, each
// with its own scores, largest score and weighted values, merged into segments and these into the
// row, in order.
#pragma once
#include "kernels/gpu/dialect/attend_places.h"
#include "kernels/gpu/functions/attend_states.h"

namespace veery::gpu {

/// Some queries of one row that share keys and values. kStaged: these come to shared memory by bulk
/// copies. kSets: of 128 threads, which share the queries; more than one with kStaged or without.
template <typename T, int kDims, bool kStaged, int kSets = 1>
class Attention {
 public:
  VEERY_GPU Attention(const VEERY_THREAD AttendArguments& arguments, int64_t row, int part,
                      VEERY_SHARED Mbarrier* mbarrier VEERY_HERE)
      : VEERY_HERE_KEPT a_(&arguments), row_(row), mbarrier_(mbarrier) {
    const int group = a_->heads / a_->kv_heads;
    const int parts = (group + kMostHeads - 1) / kMostHeads;
    kv_ = part / parts;
    head_ = kv_ * group + part % parts * kMostHeads;
    const int left = group - part % parts * kMostHeads;
    heads_ = left < kMostHeads ? left : kMostHeads;
    const int64_t token = a_->run.token_row(a_->q.rows, row);
    position_ = a_->run.positions[token];
    sequence_ = a_->run.spans[a_->run.span_of[token]].sequence;
    first_ = 0;
    if (a_->window > 0)
      first_ = a_->chunked != 0          ? position_ / a_->window * a_->window
               : position_ >= a_->window ? position_ - a_->window + 1
                                         : 0;
    places_ = stage_places(a_->key_dim, a_->value_dim, sizeof(T));
    if (mbarrier == nullptr)
      mbarrier_ = reinterpret_cast<VEERY_SHARED Mbarrier*>(shared_memory() + places_.mbarrier);
    queries_ =
        reinterpret_cast<VEERY_SHARED float*>(shared_memory() + (kStaged ? places_.bytes : 0));
    weights_ = queries_ + kMostHeads * a_->key_dim;
    found_ = weights_ + kMostHeads * kBlock;
  }
  static VEERY_GPU int parts(const VEERY_THREAD AttendArguments& a) {
    return a.kv_heads * ((a.heads / a.kv_heads + kMostHeads - 1) / kMostHeads);
  }
  VEERY_GPU int64_t first_block() const { return first_ / kBlock; }
  VEERY_GPU int64_t last_block() const { return position_ / kBlock; }
  VEERY_GPU int heads() const { return heads_; }
  VEERY_GPU int head() const { return head_; }
  VEERY_GPU int key_head() const { return kv_; }

  /// Looks for the pages of a block before it is asked for.
  VEERY_GPU void find_pages(int64_t block) {
    key_page_ = page(a_->keys, block), value_page_ = page(a_->values, block);
    found_block_ = block;
  }
  VEERY_GPU void load_queries() {
    const VEERY_DEVICE float* q = a_->q.row(row_) + head_ * a_->key_dim;
    for (int i = thread(); i < heads_ * a_->key_dim; i += threads())
      queries_[i] = Element<T>::rounded(Element<T>::multiply(q[i], a_->scale));
    sync_block();
  }

  /// Of the queries a thread computes number head_of(0, ..), head_of(1, ..)
  VEERY_STATIC int kOwnHeads = kMostHeads / kSets;
  static VEERY_GPU int head_of(int k, int t) { return kSets == 1 ? k : k * kSets + t / kBlock; }
  static VEERY_GPU int own(int t) { return kSets == 1 ? t : t % kBlock; }

  VEERY_GPU void make_stage() {
    if constexpr (kStaged)
      if (thread() == 0) make_mbarrier(mbarrier_);
    sync_block();
  }
  /// Asks for the keys and values of a block, up to what the row sees.
  VEERY_GPU void ask(int64_t block) {
    if constexpr (kStaged)
      if (warp() == 0) ask_pieces_of(block);
  }

  /// The states of one block of positions.
  VEERY_GPU void attend(int64_t block, VEERY_THREAD State<kDims> (&states)[kOwnHeads]) {
    attend(block, states, turn_);
  }
  VEERY_GPU void attend(int64_t block, VEERY_THREAD State<kDims> (&states)[kOwnHeads],
                        VEERY_THREAD int& turn) {
    if constexpr (kStaged) wait_for_pieces(mbarrier_, turn++);
    score(block);
    sync_block();
    weigh(block, states);
    sync_block();
    add_values(block, states);
    sync_block();
  }

  /// For merge_blocks(): kMostHeads * kBlock floats, once no weights are wanted.
  VEERY_GPU VEERY_SHARED float* factors() const { return weights_; }

  /// Whether this block of threads is the last of `blocks` to come.
  VEERY_GPU bool is_last(VEERY_DEVICE uint32_t* come, uint32_t blocks) {
    auto* last = reinterpret_cast<VEERY_SHARED int32_t*>(found_ + 2 * kMostHeads);
    sync_block();
    if (thread() == 0) {
      *last = arrive_on_device(come) + 1 == blocks ? 1 : 0;
      if (*last != 0) *come = 0;  // for the next run
    }
    sync_block();
    return *last != 0;
  }

  /// A sink merges last, as a score without a value.
  VEERY_GPU void finish(int h, const VEERY_THREAD State<kDims>& state) {
    Merger m = {state.most, state.sum, 1, 0};
    const bool sink = a_->sinks != nullptr;
    if (sink) m = merge<T>(state.most, state.sum, a_->sinks[head_ + h], 1);
    VEERY_DEVICE float* out = a_->out.row(row_) + (head_ + h) * a_->value_dim;
    VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i) {
      const int c = own(thread()) + i * kBlock;
      const float v = sink ? Element<T>::multiply(state.values[i], m.keep) : state.values[i];
      if (c < a_->value_dim) out[c] = Element<T>::divide(v, m.sum);
    }
  }

 private:
  VEERY_GPU void ask_pieces_of(int64_t block) {
    constexpr int kGroup = 16;  // positions
    const int64_t left = position_ - block * kBlock;
    const int groups = static_cast<int>(left < kBlock ? left : kBlock - 1) / kGroup + 1;
    if (block != found_block_) find_pages(block);
    const auto* keys = reinterpret_cast<const VEERY_DEVICE uint8_t*>(
        key_page_ + key_place(a_->keys, kv_, block * kBlock, 0));
    const auto* values = reinterpret_cast<const VEERY_DEVICE uint8_t*>(
        value_page_ + value_place(a_->values, kv_, block * kBlock, 0));
    const int key_bytes = a_->key_dim * kGroup * static_cast<int>(sizeof(T));
    const int value_bytes = a_->value_dim * kGroup * static_cast<int>(sizeof(T));
    struct Piece {
      VEERY_SHARED uint8_t* to;
      const VEERY_DEVICE uint8_t* from;
      int bytes;
    };
    ask_pieces(mbarrier_, 2 * groups, [&](int i) {
      const int g = i < groups ? i : i - groups;
      if (i < groups)
        return Piece{shared_memory() + g * places_.key_group, keys + g * key_bytes, key_bytes};
      return Piece{shared_memory() + places_.values + g * value_bytes, values + g * value_bytes,
                   value_bytes};
    });
  }

  VEERY_GPU const VEERY_DEVICE T* page(const VEERY_THREAD Cache& cache, int64_t block) const {
    return reinterpret_cast<const VEERY_DEVICE T*>(
        page_of(cache, a_->run, sequence_, block * kBlock));
  }
  VEERY_GPU const VEERY_DEVICE T* key_of(int64_t block) const {
    if constexpr (kStaged)
      return reinterpret_cast<const VEERY_SHARED T*>(shared_memory() +
                                                     own(thread()) / 16 * places_.key_group) +
             own(thread()) % 16;
    else
      return page(a_->keys, block) + key_place(a_->keys, kv_, block * kBlock + own(thread()), 0);
  }
  VEERY_GPU const VEERY_DEVICE T* values_of(int64_t block) const {
    if constexpr (kStaged)
      return reinterpret_cast<const VEERY_SHARED T*>(shared_memory() + places_.values);
    else
      return page(a_->values, block) + value_place(a_->values, kv_, block * kBlock, 0);
  }
  VEERY_GPU bool sees(int64_t position) const {
    return position >= first_ && position <= position_;
  }

  // A thread a position: one chain over the dimensions for each query.
  VEERY_GPU void score(int64_t block) {
    const int64_t position = block * kBlock + own(thread());
    float s[kOwnHeads] = {};
    if (sees(position)) {
      const VEERY_DEVICE T* key = key_of(block);
      VEERY_UNROLL(32)
      for (int step = 0; step < a_->key_dim; ++step) {
        const int i = Element<T>::kPairs ? step ^ 1 : step;
        const float k = Element<T>::at(key + i * 16);
        VEERY_UNROLL(4)
        for (int q = 0; q < kOwnHeads; ++q)
          if (head_of(q, thread()) < heads_)
            s[q] =
                Element<T>::multiply_add(queries_[head_of(q, thread()) * a_->key_dim + i], k, s[q]);
      }
    }
    VEERY_UNROLL(4)
    for (int q = 0; q < kOwnHeads; ++q) {
      const int h = head_of(q, thread());
      if (h >= heads_) continue;
      float x = s[q];
      if (a_->softcap > 0)
        x = Element<T>::multiply(a_->softcap,
                                 hyperbolic_tangent(Element<T>::divide(x, a_->softcap)));
      weights_[h * kBlock + own(thread())] = sees(position) ? x : kNothing;
    }
  }

  // A warp a query: its largest score, weights and their sum.
  VEERY_GPU void weigh(int64_t block, VEERY_THREAD State<kDims> (&states)[kOwnHeads]) {
    const int h = warp();
    if (h < heads_) {
      VEERY_SHARED float* scores = weights_ + h * kBlock;
      float most = kNothing;
      for (int i = lane(); i < kBlock; i += kWarp) most = largest(most, scores[i]);
      most = warp_largest(most);
      float w[4], sum = 0;
      for (int i = 0; i < 4; ++i) {
        const int at = i * kWarp + lane();
        w[i] = sees(block * kBlock + at) ? exp_to_88(scores[at] - most) : 0.0F;
        scores[at] = Element<T>::rounded(w[i]);
      }
      // Lane l of 16 adds positions l, l + 16, l + 32, ...; those of a warp are two tiles.
      for (int i = 0; i < 4; ++i) {
        const float other = shuffle_xor(w[i], 16);
        sum = sum + (lane() < 16 ? w[i] : other);
        sum = sum + (lane() < 16 ? other : w[i]);
      }
      sum = sum_of_16(sum);
      if (lane() == 0) found_[2 * h] = most, found_[2 * h + 1] = sum;
    }
    sync_block();
    VEERY_UNROLL(4)
    for (int q = 0; q < kOwnHeads; ++q) {
      const int of = head_of(q, thread());
      if (of < heads_) states[q].most = found_[2 * of], states[q].sum = found_[2 * of + 1];
    }
  }

  // A thread some dimensions: chains over the positions.
  VEERY_GPU void add_values(int64_t block, VEERY_THREAD State<kDims> (&states)[kOwnHeads]) {
    const int64_t begin = block * kBlock;
    const int low = static_cast<int>(first_ > begin ? first_ - begin : 0);
    const int high =
        static_cast<int>(position_ - begin < kBlock - 1 ? position_ - begin : kBlock - 1);
    VEERY_UNROLL(4)
    for (int q = 0; q < kOwnHeads; ++q) VEERY_UNROLL(4)
    for (int i = 0; i < kDims; ++i) states[q].values[i] = 0;
    const VEERY_DEVICE T* values = values_of(block);
    const auto add = [&](int p) {
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i) {
        const int c = own(thread()) + i * kBlock;
        const float v =
            c < a_->value_dim ? Element<T>::at(values + int64_t{p} * a_->value_dim + c) : 0.0F;
        VEERY_UNROLL(4)
        for (int q = 0; q < kOwnHeads; ++q)
          if (head_of(q, thread()) < heads_)
            states[q].values[i] = Element<T>::multiply_add(
                weights_[head_of(q, thread()) * kBlock + p], v, states[q].values[i]);
      }
    };
    if constexpr (Element<T>::kPairs) {
      int p = low;
      if (p % 2 != 0) add(p++);
      VEERY_UNROLL(16)
      for (; p + 1 <= high; p += 2) {
        add(p + 1);
        add(p);
      }
      if (p <= high) add(p);
    } else {
      VEERY_UNROLL(32)
      for (int p = low; p <= high; ++p) add(p);
    }
  }

  VEERY_HERE_MEMBER
  const VEERY_THREAD AttendArguments* a_;
  int64_t row_, position_, first_;
  int kv_, head_, heads_, sequence_;
  VEERY_SHARED float *queries_, *weights_, *found_;
  StagePlaces places_;
  VEERY_SHARED Mbarrier* mbarrier_;
  int64_t found_block_ = -1;
  const VEERY_DEVICE T* key_page_ = nullptr;
  const VEERY_DEVICE T* value_page_ = nullptr;
  int turn_ = 0;
};

/// Puts the states of all blocks of positions of a row together, of `queries` of its queries from
/// `from` on; a thread has dimensions of those that are head_of(0) up to head_of(kHeads - 1).
template <int kHeads, typename T, int kDims, bool kStaged, int kSets, typename HeadOf>
VEERY_GPU void merge_blocks(const VEERY_THREAD AttendArguments& a,
                            VEERY_THREAD Attention<T, kDims, kStaged, kSets>& of, int64_t row,
                            int from, int queries, const VEERY_THREAD HeadOf& head_of VEERY_HERE) {
  constexpr int kFactors = Chain<T>::kFactors, kAhead = 4;
  const int size = kPartHeader + a.value_dim;
  const VEERY_DEVICE float* parts = a.parts + (row * a.heads + of.head()) * a.blocks * size;
  VEERY_SHARED float* factors = of.factors();
  State<kDims> whole[kHeads], segment[kHeads];
  Chain<T> chain;
  for (int64_t begin = of.first_block(); begin <= of.last_block();
       begin += kWarp, parts += kWarp * size) {
    const int64_t left = of.last_block() - begin + 1;
    const int count = left < kWarp ? static_cast<int>(left) : kWarp;
    sync_block();
    if (warp() < queries)
      chain.find(parts + int64_t{from + warp()} * a.blocks * size, size, begin, count,
                 of.last_block(), factors + warp() * kWarp * kFactors);
    sync_block();
    for (int first = 0; first < count; first += kAhead) {
      float values[kAhead][kHeads][kDims];
      VEERY_UNROLL(4)
      for (int i = 0; i < kAhead; ++i) VEERY_UNROLL(4)
      for (int q = 0; q < kHeads; ++q) VEERY_UNROLL(4)
      for (int d = 0; d < kDims; ++d) {
        const int c = of.own(thread()) + d * kBlock;
        values[i][q][d] = first + i < count && head_of(q) < of.heads() && c < a.value_dim
                              ? parts[int64_t{head_of(q)} * a.blocks * size + (first + i) * size +
                                      kPartHeader + c]
                              : 0.0F;
      }
      VEERY_UNROLL(4)
      for (int i = 0; i < kAhead; ++i) {
        if (first + i >= count) break;
        VEERY_UNROLL(4)
        for (int q = 0; q < kHeads; ++q) {
          if (head_of(q) >= of.heads()) continue;
          const VEERY_SHARED float* by =
              factors + ((head_of(q) - from) * kWarp + first + i) * kFactors;
          segment[q].template add<T>(values[i][q], by[0], by[1]);
          if (by[3] == Chain<T>::kNotYet) continue;
          whole[q].template add<T>(segment[q].values, by[2], by[3]);
          segment[q].clear();
        }
      }
    }
  }
  sync_block();
  if (warp() < queries && lane() == 0)
    factors[2 * warp()] = chain.most(), factors[2 * warp() + 1] = chain.sum();
  sync_block();
  VEERY_UNROLL(4)
  for (int q = 0; q < kHeads; ++q) {
    if (head_of(q) >= of.heads()) continue;
    whole[q].most = factors[2 * (head_of(q) - from)];
    whole[q].sum = factors[2 * (head_of(q) - from) + 1];
    of.finish(head_of(q), whole[q]);
  }
}

/// Few rows: a block of threads a block of positions. The last one merges the states of all, or
/// another kernel does (kHandsOver).
template <typename T, int kDims, bool kStaged, int kSets>
VEERY_GPU void attend_some_blocks(const VEERY_THREAD AttendArguments& a,
                                  VEERY_THREAD Attention<T, kDims, kStaged, kSets>& of,
                                  const VEERY_THREAD BlockAt& at,
                                  VEERY_THREAD int& turn VEERY_HERE) {
  const int64_t first = of.first_block() + at.x, all = of.last_block() - of.first_block() + 1;
  of.ask(first);
  of.load_queries();
  constexpr int kOwnHeads = kMostHeads / kSets;
  State<kDims> states[kOwnHeads];
  for (int64_t block = first; block <= of.last_block(); block += at.blocks_x) {
    of.attend(block, states, turn);
    if (block + at.blocks_x <= of.last_block()) of.ask(block + at.blocks_x);
    VEERY_UNROLL(4)
    for (int q = 0; q < kOwnHeads; ++q) {
      const int h = of.head_of(q, thread());
      if (h >= of.heads()) continue;
      if (all == 1) {
        State<kDims> whole, segment;
        segment.template merge_in<T>(states[q]);
        whole.template merge_in<T>(segment);
        of.finish(h, whole);
        continue;
      }
      VEERY_DEVICE float* part = a.parts + ((int64_t{at.z} * a.heads + of.head() + h) * a.blocks +
                                            block - of.first_block()) *
                                               (kPartHeader + a.value_dim);
      if (of.own(thread()) == 0) part[0] = states[q].most, part[1] = states[q].sum;
      VEERY_UNROLL(4)
      for (int i = 0; i < kDims; ++i) {
        const int c = of.own(thread()) + i * kBlock;
        if (c < a.value_dim) part[kPartHeader + c] = states[q].values[i];
      }
    }
  }
  if constexpr (kHandsOver) {
    if (all == 1) return;
    const auto blocks = static_cast<uint32_t>(all < at.blocks_x ? all : at.blocks_x);
    if (!of.is_last(a.come + at.z * of.parts(a) + at.y, blocks)) return;
    const int own = thread();
    merge_blocks<kOwnHeads>(a, of, at.z, 0, of.heads(),
                            [&](int q) { return of.head_of(q, own); } VEERY_GO);
  }
}
template <typename T, int kDims, bool kStaged>
VEERY_GPU void attend_own_blocks(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  const BlockAt at = own_block();
  if (at.z >= a.run.count(a.out.rows)) return;
  Attention<T, kDims, kStaged> of(a, at.z, at.y, nullptr VEERY_GO);
  if (of.first_block() + at.x > of.last_block()) return;
  of.make_stage();
  int turn = 0;
  attend_some_blocks(a, of, at, turn VEERY_GO);
}
template <typename T, int kDims>
VEERY_GPU void attend_blocks(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  wait_for_inputs();
  if constexpr (kOneKind)
    if (a.staged != 0) return attend_own_blocks<T, kDims, true>(a VEERY_GO);
  attend_own_blocks<T, kDims, false>(a VEERY_GO);
}
/// What attend_blocks() left to do: a block of threads a query.
template <typename T, int kDims>
VEERY_GPU void attend_merge(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  Attention<T, kDims, false> of(a, row, block_y(), nullptr VEERY_GO);
  const int own = block_x();
  if (own >= of.heads() || of.first_block() == of.last_block()) return;
  merge_blocks<1>(a, of, row, own, 1, [&](int) { return own; } VEERY_GO);
}

/// A row and its queries of one key head.
template <typename T, int kDims, bool kStaged>
VEERY_GPU void attend_row(const VEERY_THREAD AttendArguments& a, int64_t row VEERY_HERE) {
  Attention<T, kDims, kStaged> of(a, row, block_y(), nullptr VEERY_GO);
  of.make_stage();
  of.ask(of.first_block());
  of.load_queries();
  State<kDims> whole[kMostHeads], segment[kMostHeads], part[kMostHeads];
  for (int64_t b = of.first_block(); b <= of.last_block(); ++b) {
    of.attend(b, part);
    if (b < of.last_block()) of.ask(b + 1);
    const bool end = b == of.last_block() || ends_segment(b);
    VEERY_UNROLL(4)
    for (int h = 0; h < kMostHeads; ++h) {
      if (h >= of.heads()) continue;
      segment[h].template merge_in<T>(part[h]);
      if (!end) continue;
      whole[h].template merge_in<T>(segment[h]);
      segment[h].clear();
    }
  }
  VEERY_UNROLL(4)
  for (int h = 0; h < kMostHeads; ++h)
    if (h < of.heads()) of.finish(h, whole[h]);
}

/// Whether the rows [first, last] are of one sequence, one position after the other. For a warp.
VEERY_GPU bool follow_each_other(const VEERY_THREAD AttendArguments& a, int64_t first,
                                 int64_t last) {
  const int64_t begin = a.run.token_row(a.q.rows, first);
  bool same = true;
  for (int64_t r = first + lane(); r <= last; r += kWarp) {
    const int64_t token = a.run.token_row(a.q.rows, r);
    same = same && a.run.span_of[token] == a.run.span_of[begin] &&
           a.run.positions[token] == a.run.positions[begin] + static_cast<int32_t>(r - first);
  }
  return ballot(!same) == 0;
}
/// Many rows: a block of threads a row and its queries of one key head.
template <typename T, int kDims>
VEERY_GPU void attend_rows(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t row = block_z(), rows = a.run.count(a.out.rows);
  if (row >= rows) return;
  if (a.tile_rows > 0) {
    const int64_t first = row / a.tile_rows * a.tile_rows;
    const int64_t end = first + a.tile_rows < rows ? first + a.tile_rows : rows;
    if (follow_each_other(a, first, end - 1)) return;
  }
  if constexpr (kOneKind)
    if (a.staged != 0) return attend_row<T, kDims, true>(a, row VEERY_GO);
  attend_row<T, kDims, false>(a, row VEERY_GO);
}

}  // namespace veery::gpu
