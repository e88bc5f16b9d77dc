#include "verify/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "chat/chat.h"
#include "engine/sequence_reader.h"
#include "file/output/pending_file.h"
#include "sample/sampler.h"
#include "verify/parts.h"

namespace veery {
namespace {

constexpr size_t kRecordedTop = 8;
constexpr size_t kGreedyTokens = 96;  // greedy tokens to compare
constexpr double kClear = 1e-3;
constexpr double kNearTie = 5e-3;

float largest_value(const ReferenceText& text) {
  float largest = 1e-6F;
  for (const ReferenceRow& row : text.rows) {
    for (const auto& [id, value] : row.values) largest = std::max(largest, std::abs(value));
    if (row.logsumexp) largest = std::max(largest, std::abs(*row.logsumexp));
  }
  return largest;
}

std::vector<int32_t> edited(const ReferenceText& text, IdEdit edit, int32_t bos) {
  std::vector<int32_t> ids = text.ids;
  if (edit == IdEdit::kBosAdded) ids.insert(ids.begin(), bos);
  if (edit == IdEdit::kFirstDropped && ids.size() > 1) ids.erase(ids.begin());
  return ids;
}

// Accumulates differences over texts.
class Comparison {
 public:
  explicit Comparison(const std::string& set) { result_.set = set; }

  void begin(size_t index, const ReferenceText& text) {
    text_ = index;
    scale_ = largest_value(text);
  }
  void add(const ReferenceRow& row, std::span<const float> logits) {
    const auto sum = static_cast<float>(row.logprobs || row.logsumexp ? log_sum_exp(logits) : 0);
    for (const auto& [id, value] : row.values) {
      if (static_cast<size_t>(id) >= logits.size())
        throw Error(ErrorKind::kInput, "the reference has a logit of id {}, but the model has {}",
                    id, logits.size());
      add(row.position, id, logits[static_cast<size_t>(id)] - (row.logprobs ? sum : 0), value);
    }
    if (row.logsumexp) add(row.position, -1, sum, *row.logsumexp);
    if (row.best < 0) return;
    ++result_.bests;
    result_.other_bests += std::ranges::max_element(logits) - logits.begin() != row.best;
  }
  Difference result() const {
    Difference result = result_;
    result.rms = std::sqrt(squares_ / static_cast<double>(std::max<int64_t>(1, result.values)));
    return result;
  }

 private:
  void add(int32_t position, int32_t id, float found, float expected) {
    double difference = std::abs(double{found} - expected) / scale_;
    if (std::isnan(difference)) difference = INFINITY;
    ++result_.values;
    squares_ += difference * difference;
    if (difference > kClear) result_.first = std::min(result_.first, position);
    if (difference <= result_.largest) return;
    result_.largest = difference;
    result_.text = text_;
    result_.position = position;
    result_.id = id;
    result_.found = found;
    result_.expected = expected;
  }

  Difference result_;
  double squares_ = 0;
  size_t text_ = 0;
  float scale_ = 1;
};

Difference compare_set(Model& model, const ReferenceSet& set, size_t most, IdEdit edit) {
  Comparison comparison(set.name);
  const int32_t bos = model.tokenizer().special().bos;
  const int32_t shift = edit == IdEdit::kBosAdded ? 1 : edit == IdEdit::kFirstDropped ? -1 : 0;
  size_t run = 0;
  for (size_t i = 0; i < set.texts.size(); ++i) {
    const ReferenceText& text = set.texts[i];
    run += text.ids.size();
    if (i > 0 && run > most) break;
    comparison.begin(i, text);
    const std::vector<int32_t> ids = edited(text, edit, bos);
    SequenceReader reader(model, std::ssize(ids));
    auto row = text.rows.begin();
    reader.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
      while (row != text.rows.end() && row->position + shift < position) ++row;
      if (row != text.rows.end() && row->position + shift == position) comparison.add(*row, logits);
    });
  }
  return comparison.result();
}

// Returns whether longrope would switch its divisors during the continuation.
bool changes_divisors(const Model& model, const ReferenceText& text) {
  const auto length = static_cast<double>(text.ids.size());
  const double limit = model.config().positions.rope.original_context;
  return model.file().find("rope_factors_long.weight") != nullptr && length <= limit &&
         length + static_cast<double>(text.greedy.size()) > limit;
}

double shortened(float value) { return std::stod(fmt::format("{:.7g}", value)); }

Json recorded_position(int32_t position, std::span<const float> logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const size_t count = std::min(kRecordedTop, ids.size());
  const auto at = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
      [&](int32_t a, int32_t b) { return at(a) > at(b) || (at(a) == at(b) && a < b); });
  Json top = Json::array();
  for (size_t i = 0; i < count; ++i) top.push_back({ids[i], shortened(at(ids[i]))});
  return {{"position", position},
          {"logsumexp", shortened(static_cast<float>(log_sum_exp(logits)))},
          {"top", std::move(top)}};
}

// Records the last `shown` positions of a text, and its greedy continuation.
Json recorded(Model& model, std::span<const int32_t> ids, int64_t shown, size_t steps) {
  SequenceReader reader(model, std::ssize(ids) + static_cast<int64_t>(steps));
  Json positions = Json::array();
  reader.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
    if (position >= std::ssize(ids) - shown)
      positions.push_back(recorded_position(position, logits));
  });
  Json greedy = Json::array();
  for (size_t i = 0; i < steps; ++i) {
    const int32_t best = argmax(reader.logits());
    greedy.push_back(best);
    if (i + 1 < steps) reader.feed({&best, 1});
  }
  return {{"input_ids", ids}, {"positions", std::move(positions)}, {"greedy", std::move(greedy)}};
}

std::vector<int32_t> any_ids(const Model& model, int64_t count) {
  Random random(7);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random.next() % static_cast<uint32_t>(model.config().vocab));
  return ids;
}

}  // namespace

Difference compare(Model& model, std::span<const ReferenceSet> sets, size_t most, IdEdit edit) {
  Difference best;
  best.rms = INFINITY;
  for (const ReferenceSet& set : sets)
    if (Difference here = compare_set(model, set, most, edit); !(here.rms > best.rms)) best = here;
  return best;
}

std::string other_greedy(Model& model, const ReferenceSet& set) {
  size_t left = kGreedyTokens;
  for (size_t i = 0; i < set.texts.size() && left > 0; ++i) {
    const ReferenceText& text = set.texts[i];
    const auto length = std::ssize(text.ids) + std::ssize(text.greedy);
    if (length > model.options().context || changes_divisors(model, text)) continue;
    SequenceReader reader(model, length);
    reader.feed(text.ids);
    for (size_t k = 0; k < text.greedy.size() && left > 0; ++k, --left) {
      const int32_t expected = text.greedy[k];
      const int32_t found = argmax(reader.logits());
      const auto logit = [&](int32_t id) { return reader.logits()[static_cast<size_t>(id)]; };
      if (expected >= model.config().vocab || logit(found) - logit(expected) > kNearTie)
        return fmt::format("text {}, token {}: id {}, not {}", i, k, found, expected);
      reader.feed({&expected, 1});
    }
  }
  return {};
}

void write_reference(Model& model, const std::string& path, const OutputRules& rules) {
  const int64_t context = model.options().context;
  constexpr int64_t kText = 64, kShort = 5, kSteps = 16, kBeyond = 8, kShown = 4, kLongest = 2048;
  std::vector<int32_t> ids;
  if (model.tokenizer().size() > 0) ids = encode_prompt(model.tokenizer(), plain_english());
  std::erase_if(ids, [&](int32_t id) { return id >= model.config().vocab; });
  if (std::ssize(ids) < kShort) ids = any_ids(model, kText);
  const int64_t length = std::min({std::ssize(ids), kText, std::max(int64_t{1}, context - kSteps)});
  ids.resize(static_cast<size_t>(length));
  const auto steps = static_cast<size_t>(std::min(kSteps, context - length));
  Json texts = Json::array({recorded(model, ids, length, steps)});
  texts.push_back(recorded(model, any_ids(model, std::min(kShort, context)), kShort, 0));
  const int64_t beyond = int64_t{model.config().attention.window} + kBeyond;
  if (model.config().attention.window > 0 && beyond <= std::min(context, kLongest))
    texts.push_back(recorded(model, any_ids(model, beyond), kShown, 0));
  Json all = {{"made_by", "veery verify --record"},
              {"architecture", model.config().architecture},
              {"name", model.file().metadata.text("general.name").value_or("")},
              {"cases", std::move(texts)}};
  if (model.tokenizer().size() > 0) all["tokenizer"] = recorded_vocabulary(model.tokenizer());
  const std::string text = dump_json(all) + "\n";
  PendingFile file(path, rules);
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace veery
