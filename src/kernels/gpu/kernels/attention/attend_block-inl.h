// attend_block-inl.h: attention of the queries of one row over one KV block of 128 positions:
// scores, their maximum, weights and weighted values, with the bits of kernels/cpu/attend.
#pragma once
#include "kernels/gpu/kernels/attention/softmax_state-inl.h"
#include "kernels/gpu/smem/attend_smem.h"

namespace veery::gpu {

/// The tensor core variant of two steps of Attention (attend_block_mma.h), if Element::kMma.
template <typename Of>
class BlockMma;

/// Attention of some queries of one row that share keys and values of up to 128 kDims dimensions.
/// kStaged: bulk copies load keys and values into shared memory. The queries are distributed over
/// kThreadSets sets of 64 threads. A thread computes the scores of two neighbouring positions, then
/// the values of pairs of neighbouring dimensions.
template <typename T, int kDims, bool kStaged, int kThreadSets = 2>
class Attention {
 public:
  VEERY_STATIC int kSetThreads = kKvBlock / 2;
  /// Loads in flight: dimensions of keys, positions of values.
  VEERY_STATIC int kInFlight = sizeof(T) == 4 ? 4 : 16;
  VEERY_STATIC int kThreadQueries = kMaxHeads / kThreadSets;  ///< queries per thread
  VEERY_STATIC int kValues = 2 * kDims;                       ///< values per query and thread

  VEERY_GPU Attention(const VEERY_THREAD AttendParams& params, int64_t row, int part VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT a_(&params), row_(row) {
    const int64_t token = params.run.token_row(params.q.rows, row);
    position_ = params.run.position(token);
    sequence_ = params.run.spans[params.run.span_of[token]].sequence;
    const int group = a_->group, parts = (group + kMaxHeads - 1) / kMaxHeads;
    kv_ = parts == 1 ? part : part / parts;
    const int before = (part - kv_ * parts) * kMaxHeads, left = group - before;
    head_ = kv_ * group + before;
    heads_ = left < kMaxHeads ? left : kMaxHeads;
    first_ = 0;
    if (a_->window > 0)
      first_ = a_->chunked != 0          ? position_ / a_->window * a_->window
               : position_ >= a_->window ? position_ - a_->window + 1
                                         : 0;
    layout_ = attend_stage_smem(a_->key_dim, a_->value_dim, sizeof(T));
    mbarrier_ = reinterpret_cast<VEERY_SHARED Mbarrier*>(shared_memory() + layout_.mbarrier);
    queries_ =
        reinterpret_cast<VEERY_SHARED float*>(shared_memory() + (kStaged ? layout_.bytes : 0));
    weights_ = queries_ + kMaxHeads * a_->key_dim;
    stats_ = weights_ + kMaxHeads * kKvBlock;
    last_ = reinterpret_cast<VEERY_SHARED int32_t*>(stats_ + 2 * kMaxHeads);
  }
  static VEERY_GPU int parts(const VEERY_THREAD AttendParams& a) {
    return a.kv_heads * ((a.group + kMaxHeads - 1) / kMaxHeads);
  }
  VEERY_GPU int64_t position() const { return position_; }
  VEERY_GPU int64_t first_block() const { return first_ / kKvBlock; }
  VEERY_GPU int64_t last_block() const { return position_ / kKvBlock; }
  VEERY_GPU int heads() const { return heads_; }
  VEERY_GPU int head() const { return head_; }
  VEERY_GPU int key_head() const { return kv_; }

  /// Finds the pages of a KV block, before its copies are issued.
  VEERY_GPU void find_pages(int64_t block) {
    const auto page = [&](const VEERY_THREAD Cache& cache, int32_t number) {
      return reinterpret_cast<const VEERY_DEVICE T*>(cache.data + number * cache.page);
    };
    const int32_t number = page_number(a_->keys, a_->run, sequence_, block * kKvBlock);
    key_page_ = page(a_->keys, number);
    value_page_ =
        page(a_->values, a_->values.group == a_->keys.group
                             ? number
                             : page_number(a_->values, a_->run, sequence_, block * kKvBlock));
    found_block_ = block;
  }
  /// Returns the page of the newest position; called after find_pages().
  VEERY_GPU VEERY_DEVICE uint8_t* newest_page(bool key) const {
    const VEERY_THREAD Cache& cache = key ? a_->keys : a_->values;
    const bool found = found_block_ * kKvBlock / 256 == position_ / 256;
    if (!found) return page_of(cache, a_->run, sequence_, position_);
    const auto* page = reinterpret_cast<const VEERY_DEVICE uint8_t*>(key ? key_page_ : value_page_);
    return const_cast<VEERY_DEVICE uint8_t*>(page);  // NOLINT
  }
  VEERY_GPU void load_queries() {
    const VEERY_DEVICE float* q = a_->q.row(row_) + head_ * a_->key_dim;
    for (int i = thread(); i < heads_ * a_->key_dim; i += threads()) store_query(0, i, q[i]);
    sync_block();
  }

  /// Stores element i of query h.
  VEERY_GPU void store_query(int h, int i, float q) {
    queries_[h * a_->key_dim + i] = Element<T>::rounded(Element<T>::multiply(q, a_->scale));
  }
  /// Stores element i of the newest key or value, which is not in the cache yet, into the memory
  /// from which its KV block is read.
  VEERY_GPU void store_new(bool key, int i, float v) {
    const int p = static_cast<int>(position_ % kKvBlock);
    const int at = key ? p / 16 * layout_.key_group : layout_.values;
    VEERY_SHARED T* to = reinterpret_cast<VEERY_SHARED T*>(shared_memory() + at);
    Element<T>::store(to + (key ? i * 16 + p % 16 : p * a_->value_dim + i), v);
  }

  /// Returns the index of the thread's query q, which may be past the last query.
  VEERY_GPU int head_of(int q) const { return q * kThreadSets + thread() / kSetThreads; }
  /// Returns the dimension of the thread's value i.
  VEERY_GPU int dim(int i) const { return i / 2 * kKvBlock + 2 * (thread() % kSetThreads) + i % 2; }

  /// Returns the dimension to read for value i. Past the last dimension it is another one, which is
  /// not stored.
  VEERY_GPU int read_dim(int i) const { return dim(i) < a_->value_dim ? dim(i) : 0; }

  VEERY_GPU void init_stage() {
    if constexpr (kStaged)
      if (thread() == 0) init_mbarrier(mbarrier_);
    sync_block();
  }
  /// Issues the copies of the keys and values of a KV block, up to the last position the row sees.
  VEERY_GPU void copy_block(int64_t block) {
    if constexpr (kStaged)
      if (warp() == 0) copy_block_pieces(block);
  }

  /// Waits for the copies of copy_block().
  VEERY_GPU void wait(VEERY_THREAD int& phase) {
    if constexpr (kStaged) wait_for_phase(mbarrier_, phase++);
  }
  /// Computes the states of the thread's queries over a KV block that has arrived.
  VEERY_GPU void attend(int64_t block, VEERY_THREAD State<kValues> (&states)[kThreadQueries]) {
    if constexpr (Element<T>::kMma)
      BlockMma<Attention>(*this, block).score();
    else
      score(block);
    sync_block();
    softmax_weights(block);
    sync_block();
    if constexpr (Element<T>::kMma)
      BlockMma<Attention>(*this, block).add_values(states);
    else
      add_values(block, states);
  }

  /// Returns whether this thread block is the last of `blocks` to arrive.
  VEERY_GPU bool is_last_block(VEERY_DEVICE uint32_t* arrivals, uint32_t blocks) {
    sync_block();
    if (thread() == 0) {
      *last_ = count_arrival_on_device(arrivals) + 1 == blocks ? 1 : 0;
      if (*last_ != 0) *arrivals = 0;  // for the next run
    }
    sync_block();
    return *last_ != 0;
  }

  /// Normalises and stores query h. An attention sink is merged last, as a position whose value
  /// vector is zero.
  VEERY_GPU void finish(int h, const VEERY_THREAD State<kValues>& state) {
    SoftmaxMerge m = {state.max_score, state.sum, 1, 0};
    const bool sink = a_->sinks != nullptr;
    if (sink) m = merge<T>(state.max_score, state.sum, a_->sinks[head_ + h], 1);
    VEERY_DEVICE float* out = a_->out.row(row_) + (head_ + h) * a_->value_dim;
    VEERY_UNROLL(4)
    for (int i = 0; i < kValues; ++i) {
      const float v = sink ? Element<T>::multiply(state.values[i], m.keep) : state.values[i];
      if (dim(i) < a_->value_dim) out[dim(i)] = Element<T>::divide(v, m.sum);
    }
  }

 private:
  friend class BlockMma<Attention>;

  VEERY_GPU void copy_block_pieces(int64_t block) {
    constexpr int kGroup = 16;  // positions
    const int64_t left = position_ - block * kKvBlock;
    const int groups = static_cast<int>(left < kKvBlock ? left : kKvBlock - 1) / kGroup + 1;
    if (block != found_block_) find_pages(block);
    const auto* keys = reinterpret_cast<const VEERY_DEVICE uint8_t*>(
        key_page_ + key_offset(a_->keys, kv_, block * kKvBlock, 0));
    const auto* values = reinterpret_cast<const VEERY_DEVICE uint8_t*>(
        value_page_ + value_offset(a_->values, kv_, block * kKvBlock, 0));
    const int key_bytes = a_->key_dim * kGroup * static_cast<int>(sizeof(T));
    const int value_bytes = a_->value_dim * kGroup * static_cast<int>(sizeof(T));
    struct Piece {
      VEERY_SHARED uint8_t* to;
      const VEERY_DEVICE uint8_t* from;
      int bytes;
    };
    copy_bulk_pieces(mbarrier_, 2 * groups, [&](int i) {
      const int g = i < groups ? i : i - groups;
      if (i < groups)
        return Piece{shared_memory() + g * layout_.key_group, keys + g * key_bytes, key_bytes};
      return Piece{shared_memory() + layout_.values + g * value_bytes, values + g * value_bytes,
                   value_bytes};
    });
  }

  VEERY_GPU const VEERY_DEVICE T* page(const VEERY_THREAD Cache& cache, int64_t block) const {
    return reinterpret_cast<const VEERY_DEVICE T*>(
        page_of(cache, a_->run, sequence_, block * kKvBlock));
  }
  // Returns the keys of a group of 16 positions, which are stored dimension by dimension.
  VEERY_GPU const VEERY_DEVICE T* keys_at(int64_t block, int at) const {
    if constexpr (kStaged)
      return reinterpret_cast<const VEERY_SHARED T*>(shared_memory() +
                                                     at / 16 * layout_.key_group) +
             at % 16;
    else
      return page(a_->keys, block) + key_offset(a_->keys, kv_, block * kKvBlock + at, 0);
  }
  VEERY_GPU const VEERY_DEVICE T* values_at(int64_t block) const {
    if constexpr (kStaged)
      return reinterpret_cast<const VEERY_SHARED T*>(shared_memory() + layout_.values);
    else
      return page(a_->values, block) + value_offset(a_->values, kv_, block * kKvBlock, 0);
  }
  VEERY_GPU bool sees(int64_t position) const {
    return position >= first_ && position <= position_;
  }

  /// Returns the number of the thread's queries. Code is specialised by it, without a branch for
  /// absent queries: a load after a branch waits for the loads before it.
  VEERY_GPU int thread_queries() const {
    static_assert(kThreadQueries <= 2, "all, one or none");
    const int left = heads_ - thread() / kSetThreads;
    return left <= 0 ? 0 : left > kThreadSets ? kThreadQueries : 1;
  }

  VEERY_GPU void score(int64_t block) {
    const int own = thread_queries();
    if (own == kThreadQueries)
      score_queries<kThreadQueries>(block);
    else if (own == 1)
      score_queries<1>(block);
  }
  // Computes the scores of the thread's two positions. The score of each query is accumulated
  // sequentially over the dimensions.
  template <int kCount>
  VEERY_GPU void score_queries(int64_t block) {
    const int at = 2 * (thread() % kSetThreads);
    const int64_t position = block * kKvBlock + at;
    float s[kCount][2] = {};
    if (sees(position) || sees(position + 1)) {
      const VEERY_DEVICE T* key = keys_at(block, at);
      int i = 0;
      VEERY_UNROLL(1)
      for (; i + kInFlight <= a_->key_dim; i += kInFlight) VEERY_UNROLL(4)
      for (int e = i; e < i + kInFlight; e += 4) add_scores<kCount>(key + e * 16, e, s);
      VEERY_UNROLL(1)
      for (; i < a_->key_dim; i += 4) add_scores<kCount>(key + i * 16, i, s);
    }
    VEERY_UNROLL(4)
    for (int q = 0; q < kCount; ++q) VEERY_UNROLL(2)
    for (int e = 0; e < 2; ++e) {
      float x = s[q][e];
      if (a_->softcap > 0)
        x = Element<T>::multiply(a_->softcap, tanh_f32(Element<T>::divide(x, a_->softcap)));
      weights_[head_of(q) * kKvBlock + at + e] = sees(position + e) ? x : kNoScore;
    }
  }
  // Adds dimensions first to first + 3.
  template <int kCount>
  VEERY_GPU void add_scores(const VEERY_DEVICE T* key, int first,
                            VEERY_THREAD float (&s)[kCount][2]) const {
    Two<float> k[4];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) k[i] = Element<T>::two(key + i * 16);
    VEERY_UNROLL(4)
    for (int q = 0; q < kCount; ++q) {
      const auto query = load_shared<Four<float>>(queries_ + head_of(q) * a_->key_dim + first);
      const float own[4] = {query.x, query.y, query.z, query.w};
      VEERY_UNROLL(4)
      for (int step = 0; step < 4; ++step) {
        const int i = Element<T>::kPairs ? step ^ 1 : step;
        s[q][0] = Element<T>::multiply_add(own[i], k[i].x, s[q][0]);
        s[q][1] = Element<T>::multiply_add(own[i], k[i].y, s[q][1]);
      }
    }
  }

  // Each warp processes one query: the maximum of the scores, the softmax weights and their sum.
  VEERY_GPU void softmax_weights(int64_t block) {
    if (warp() >= heads_) return;
    VEERY_SHARED float* scores = weights_ + warp() * kKvBlock;
    float own[4], w[4], max_score = kNoScore, sum = 0;
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) own[i] = scores[i * kWarp + lane()];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) max_score = max_f32(max_score, own[i]);
    max_score = warp_max(max_score);
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) w[i] = exp_clamped(own[i] - max_score);
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const int at = i * kWarp + lane();
      w[i] = sees(block * kKvBlock + at) ? w[i] : 0.0F;
      scores[at] = Element<T>::rounded(w[i]);
    }
    // Lane l of 16 adds positions l, l + 16, l + 32, ...; a warp covers two groups of 16.
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float other = shuffle_xor(w[i], 16);
      sum = sum + (lane() < 16 ? w[i] : other);
      sum = sum + (lane() < 16 ? other : w[i]);
    }
    sum = sum_16_lanes(sum);
    if (lane() == 0) stats_[2 * warp()] = max_score, stats_[2 * warp() + 1] = sum;
  }

  // Each thread accumulates its dimensions sequentially over the positions. The odd position of a
  // bf16 pair comes first.
  VEERY_GPU void add_values(int64_t block, VEERY_THREAD State<kValues> (&states)[kThreadQueries]) {
    const int own = thread_queries();
    VEERY_UNROLL(4)
    for (int q = 0; q < kThreadQueries; ++q) {
      states[q].clear();
      if (q < own)
        states[q].max_score = stats_[2 * head_of(q)], states[q].sum = stats_[2 * head_of(q) + 1];
    }
    if (own == kThreadQueries)
      add_query_values<kThreadQueries>(block, states);
    else if (own == 1)
      add_query_values<1>(block, states);
  }
  template <int kCount>
  VEERY_GPU void add_query_values(int64_t block,
                                  VEERY_THREAD State<kValues> (&states)[kThreadQueries]) {
    const int64_t begin = block * kKvBlock;
    const int low = static_cast<int>(first_ > begin ? first_ - begin : 0);
    const int high =
        static_cast<int>(position_ - begin < kKvBlock - 1 ? position_ - begin : kKvBlock - 1);
    const VEERY_DEVICE T* values = values_at(block);
    int p = low;
    const auto pair = [&] {
      add_value<kCount>(values, Element<T>::kPairs ? p + 1 : p, states);
      add_value<kCount>(values, Element<T>::kPairs ? p : p + 1, states);
      p += 2;
    };
    if (p % 2 != 0) add_value<kCount>(values, p, states), ++p;
    if (p % 4 != 0 && p + 1 <= high) pair();
    VEERY_UNROLL(1)
    for (; p + kInFlight - 1 <= high; p += kInFlight) VEERY_UNROLL(4)
    for (int i = 0; i < kInFlight; i += 4) add_four<kCount>(values, p + i, states);
    VEERY_UNROLL(1)
    for (; p + 3 <= high; p += 4) add_four<kCount>(values, p, states);
    if (p + 1 <= high) pair();
    if (p <= high) add_value<kCount>(values, p, states);
  }
  template <int kCount>
  VEERY_GPU void add_value(const VEERY_DEVICE T* values, int p,
                           VEERY_THREAD State<kValues> (&states)[kThreadQueries]) const {
    VEERY_UNROLL(2)
    for (int i = 0; i < kValues; i += 2) {
      const Two<float> v = Element<T>::two(values + int64_t{p} * a_->value_dim + read_dim(i));
      VEERY_UNROLL(4)
      for (int q = 0; q < kCount; ++q) add(weights_[head_of(q) * kKvBlock + p], v, i, states[q]);
    }
  }
  // Adds positions p to p + 3.
  template <int kCount>
  VEERY_GPU void add_four(const VEERY_DEVICE T* values, int p,
                          VEERY_THREAD State<kValues> (&states)[kThreadQueries]) const {
    VEERY_UNROLL(2)
    for (int i = 0; i < kValues; i += 2) {
      Two<float> v[4];
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e)
        v[e] = Element<T>::two(values + int64_t{p + e} * a_->value_dim + read_dim(i));
      VEERY_UNROLL(4)
      for (int q = 0; q < kCount; ++q) {
        const auto w = load_shared<Four<float>>(weights_ + head_of(q) * kKvBlock + p);
        const float own[4] = {w.x, w.y, w.z, w.w};
        VEERY_UNROLL(4)
        for (int step = 0; step < 4; ++step) {
          const int e = Element<T>::kPairs ? step ^ 1 : step;
          add(own[e], v[e], i, states[q]);
        }
      }
    }
  }
  static VEERY_GPU void add(float weight, Two<float> v, int i, VEERY_THREAD State<kValues>& state) {
    state.values[i] = Element<T>::multiply_add(weight, v.x, state.values[i]);
    state.values[i + 1] = Element<T>::multiply_add(weight, v.y, state.values[i + 1]);
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_THREAD AttendParams* a_;
  int64_t row_, position_, first_;
  int sequence_;
  int kv_, head_, heads_;
  VEERY_SHARED float *queries_, *weights_, *stats_;
  VEERY_SHARED int32_t* last_;
  AttendStageSmem layout_;
  VEERY_SHARED Mbarrier* mbarrier_;
  int64_t found_block_ = -1;
  const VEERY_DEVICE T* key_page_ = nullptr;
  const VEERY_DEVICE T* value_page_ = nullptr;
};

/// Merges the states of query h over a few KV blocks, each of which is a segment. Each thread
/// merges its own dimensions, with a single round of loads.
template <typename T, int kDims, bool kStaged, int kThreadSets>
VEERY_GPU void merge_few_blocks(const VEERY_THREAD AttendParams& a,
                                VEERY_THREAD Attention<T, kDims, kStaged, kThreadSets>& attn,
                                const VEERY_DEVICE float* parts, int count, int h) {
  constexpr int kValues = Attention<T, kDims, kStaged, kThreadSets>::kValues;
  const int size = kPartialHeader + a.value_dim;
  State<kValues> whole, blocks[kMaxDirectMerge];
  VEERY_UNROLL(4)
  for (int i = 0; i < kMaxDirectMerge; ++i) {
    if (i >= count) continue;
    const VEERY_DEVICE float* part = parts + i * size;
    blocks[i].max_score = part[0], blocks[i].sum = part[1];
    VEERY_UNROLL(4)
    for (int d = 0; d < kValues; ++d) blocks[i].values[d] = part[kPartialHeader + attn.read_dim(d)];
  }
  VEERY_UNROLL(4)
  for (int i = 0; i < kMaxDirectMerge; ++i) {
    // A condition instead of a break, so that the loop is unrolled and values stay in registers.
    if (i < count) {
      State<kValues> segment;
      segment.template merge_in<T>(blocks[i]);
      whole.template merge_in<T>(segment);
    }
  }
  attn.finish(h, whole);
}
/// Merges the states of query h over all KV blocks, by a set of threads.
template <typename T, int kDims, bool kStaged, int kThreadSets>
VEERY_GPU void merge_blocks(const VEERY_THREAD AttendParams& a,
                            VEERY_THREAD Attention<T, kDims, kStaged, kThreadSets>& attn,
                            int64_t row, int h) {
  using Attn = Attention<T, kDims, kStaged, kThreadSets>;
  constexpr int kInFlight = 8, kValues = Attn::kValues;
  const int size = kPartialHeader + a.value_dim;
  const VEERY_DEVICE float* parts =
      a.partials + (row * a.heads + attn.head() + h) * a.blocks * size;
  const int64_t all = attn.last_block() - attn.first_block() + 1;
  if (all <= kMaxDirectMerge && attn.last_block() < kSingleBlockSegments)
    return merge_few_blocks(a, attn, parts, static_cast<int>(all), h);
  State<kValues> whole, segment;
  MergeChain<T> merge_chain;
  for (int64_t begin = attn.first_block(); begin <= attn.last_block();
       begin += kWarp, parts += kWarp * size) {
    const int64_t left = attn.last_block() - begin + 1;
    const int count = left < kWarp ? static_cast<int>(left) : kWarp;
    float values[kInFlight][kValues];
    const auto read = [&](int first) {
      VEERY_UNROLL(8)
      for (int i = 0; i < kInFlight; ++i) VEERY_UNROLL(4)
      for (int d = 0; d < kValues; ++d)
        values[i][d] = first + i < count && attn.dim(d) < a.value_dim
                           ? parts[(first + i) * size + kPartialHeader + attn.dim(d)]
                           : 0.0F;
    };
    read(0);
    const Factors by = merge_chain.next_factors(parts, size, begin, count, attn.last_block());
    for (int first = 0; first < count; first += kInFlight) {
      if (first > 0) read(first);
      VEERY_UNROLL(8)
      for (int i = 0; i < kInFlight; ++i) {
        // A condition instead of a break, so that the loop is unrolled and values stay in
        // registers.
        if (first + i < count) {
          segment.template add<T>(values[i], shuffle(by.keep, first + i),
                                  shuffle(by.add, first + i));
          const float add = shuffle(by.whole_add, first + i);
          if (add != Factors::kOpen) {
            whole.template add<T>(segment.values, shuffle(by.whole_keep, first + i), add);
            segment.clear();
          }
        }
      }
    }
  }
  whole.max_score = merge_chain.max_score(), whole.sum = merge_chain.sum();
  attn.finish(h, whole);
}

}  // namespace veery::gpu
