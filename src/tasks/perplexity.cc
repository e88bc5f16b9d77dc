#include "tasks/perplexity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sample/sampler.h"
#include "text/chat/chat_text.h"

namespace veery {
namespace {

/// Sums over scored tokens.
struct Sums {
  double sum = 0, squares = 0;
  int64_t count = 0;

  void add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  void add(const Sums& other) {
    sum += other.sum;
    squares += other.squares;
    count += other.count;
  }
  Estimate mean() const {
    const auto n = static_cast<double>(count);
    const double mean = sum / n;
    const double variance = std::max(0.0, squares / n - mean * mean);
    return {mean, count > 1 ? std::sqrt(variance / (n - 1)) : 0};
  }
  /// exp(mean()).
  Estimate exponential() const {
    const Estimate log = mean();
    return {std::exp(log.value), log.error * std::exp(log.value)};
  }
};

/// Adds the sums of a window to the total and updates the result.
void add_window(const Sums& window, Sums& total, Perplexity& result) {
  total.add(window);
  const auto [value, error] = total.exponential();
  result.perplexity = value;
  result.standard_error = error;
  result.tokens = total.count;
  result.window_means.push_back(window.mean().value);
}

size_t count_windows(std::span<const int32_t> ids, int32_t window) {
  if (window < 2)
    throw Error(ErrorKind::kInput, "found a window of {} tokens, expected 2 or more", window);
  const size_t windows = ids.size() / static_cast<size_t>(window);
  if (windows == 0)
    throw Error(ErrorKind::kInput, "found a text of {} tokens, expected at least one window of {}",
                ids.size(), window);
  return windows;
}

std::vector<int32_t> window_at(const Model& model, std::span<const int32_t> ids, size_t index,
                               int32_t window) {
  const auto size = static_cast<size_t>(window);
  const auto part = ids.subspan(index * size, size);
  std::vector<int32_t> result(part.begin(), part.end());
  const Tokenizer::Special& special = model.tokenizer().special();
  if (special.add_bos && special.bos >= 0) result[0] = special.bos;
  return result;
}

double surprise(std::span<const float> logits, int32_t next) {
  return log_sum_exp(logits) - logits[static_cast<size_t>(next)];
}

/// Begins a window by the tokens that are not scored.
void feed_first(SequenceReader& reader, std::span<const int32_t> ids) {
  reader.clear();
  if (!ids.empty()) reader.feed(ids);
}

Sums score(SequenceReader& reader, std::span<const int32_t> ids) {
  const auto first = ids.size() / 2;
  feed_first(reader, ids.first(first));
  Sums sums;
  reader.feed_all(ids.subspan(first, ids.size() - 1 - first),
                  [&](int32_t position, std::span<const float> logits) {
                    sums.add(surprise(logits, ids[static_cast<size_t>(position) + 1]));
                  });
  return sums;
}

/// A model's logits at consecutive positions.
class Predictions {
 public:
  /// Collects the logits after each of `ids`.
  void collect(SequenceReader& reader, std::span<const int32_t> ids) {
    values_.clear();
    reader.feed_all(ids, [&](int32_t, std::span<const float> logits) {
      vocabulary_ = logits.size();
      values_.insert(values_.end(), logits.begin(), logits.end());
    });
  }
  std::span<const float> at(size_t i) const {
    return std::span(values_).subspan(i * vocabulary_, vocabulary_);
  }

 private:
  size_t vocabulary_ = 0;
  std::vector<float> values_;
};

/// Scores two models on the same tokens.
class Pair {
 public:
  Pair(Model& model, Model& reference)
      : pool_(model.pool()), reader_(model), reference_reader_(reference) {}

  struct Scores {
    Sums model, reference, ratio, divergence, same;
  };
  /// Returns the sums of a window.
  Scores score(std::span<const int32_t> ids) {
    const size_t first = ids.size() / 2;
    feed_first(reader_, ids.first(first));
    feed_first(reference_reader_, ids.first(first));
    Scores sums;
    for (size_t begin = first; begin + 1 < ids.size(); begin += kTogether) {
      const size_t count = std::min(kTogether, ids.size() - 1 - begin);
      predictions_.collect(reader_, ids.subspan(begin, count));
      right_.collect(reference_reader_, ids.subspan(begin, count));
      std::vector<Token> tokens(count);
      pool_.parallel_for(static_cast<int64_t>(count), 1, [&](int64_t at, int64_t) {
        const auto i = static_cast<size_t>(at);
        tokens[i] = score(i, ids[begin + i + 1]);
      });
      for (const Token& token : tokens) add(token, sums);
    }
    return sums;
  }

 private:
  static constexpr size_t kTogether = 64;  // positions whose logits are in memory

  struct Token {
    double model = 0, reference = 0, divergence = 0;
    bool same = false;
  };
  Token score(size_t i, int32_t next) const {
    const auto logits = predictions_.at(i), right = right_.at(i);
    return {surprise(logits, next), surprise(right, next), divergence(right, logits),
            argmax(logits) == argmax(right)};
  }
  static void add(const Token& token, Scores& sums) {
    sums.model.add(token.model);
    sums.reference.add(token.reference);
    sums.ratio.add(token.model - token.reference);
    sums.divergence.add(token.divergence);
    sums.same.add(token.same ? 1 : 0);
  }

  ThreadPool& pool_;
  SequenceReader reader_, reference_reader_;
  Predictions predictions_, right_;
};

/// Returns the ids of `text`. Throws kInput unless they are the same for both models.
std::vector<int32_t> common_ids(const Model& model, const Model& reference, std::string_view text) {
  if (model.config().vocab != reference.config().vocab)
    throw Error(ErrorKind::kInput, "{} has a vocabulary of {} tokens, the reference {} one of {}",
                model.path(), model.config().vocab, reference.path(), reference.config().vocab);
  const auto ids = encode_prompt(model.tokenizer(), text);
  const auto expected = encode_prompt(reference.tokenizer(), text);
  const auto [at, other] = std::ranges::mismatch(ids, expected);
  if (at == ids.end() && other == expected.end()) return ids;
  const auto name = [](auto found, auto end) {
    return found == end ? std::string("the end") : std::to_string(*found);
  };
  throw Error(ErrorKind::kInput,
              "the text is tokenized differently by {} and the reference {}: token {} is {} and {}",
              model.path(), reference.path(), at - ids.begin(), name(at, ids.end()),
              name(other, expected.end()));
}

}  // namespace

Perplexity perplexity(const Model& model, SequenceReader& reader, std::span<const int32_t> ids,
                      int32_t window,
                      const std::function<void(const Perplexity&, size_t)>& progress) {
  const size_t windows = count_windows(ids, window);
  Perplexity result;
  Sums total;
  for (size_t w = 0; w < windows; ++w) {
    add_window(score(reader, window_at(model, ids, w, window)), total, result);
    if (progress) progress(result, windows);
  }
  return result;
}

Comparison compare(Model& model, Model& reference, std::string_view text, int32_t window,
                   const std::function<void(const Comparison&, size_t)>& progress) {
  const auto ids = common_ids(model, reference, text);
  const size_t windows = count_windows(ids, window);
  Pair pair(model, reference);
  Comparison result;
  Pair::Scores total;
  for (size_t w = 0; w < windows; ++w) {
    const Pair::Scores scores = pair.score(window_at(model, ids, w, window));
    add_window(scores.model, total.model, result.model);
    add_window(scores.reference, total.reference, result.reference);
    total.ratio.add(scores.ratio);
    total.divergence.add(scores.divergence);
    total.same.add(scores.same);
    result.ratio = total.ratio.exponential();
    result.divergence = total.divergence.mean();
    result.same_best = total.same.mean();
    if (progress) progress(result, windows);
  }
  return result;
}

}  // namespace veery
