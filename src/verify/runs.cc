// runs.cc: checks a model by comparing its outputs under different conditions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "chat/chat.h"
#include "engine/sequence_reader.h"
#include "sample/sampler.h"
#include "verify/parts.h"

namespace veery {
namespace {

constexpr size_t kCompared = 24;  // tokens whose logits are compared bit for bit
constexpr size_t kScored = 256;   // tokens of plain English to score

// Returns ids of plain English, or arbitrary ids without a tokenizer.
std::vector<int32_t> some_ids(const Model& model, size_t most) {
  most = std::min(most, static_cast<size_t>(model.options().context));
  std::vector<int32_t> ids;
  if (model.tokenizer().size() > 0) {
    ids = encode_prompt(model.tokenizer(), plain_english());
    std::erase_if(ids, [&](int32_t id) { return id >= model.config().vocab; });
  }
  for (uint32_t i = 0; ids.size() < 8; ++i)
    ids.push_back(static_cast<int32_t>(i * 7919U % static_cast<uint32_t>(model.config().vocab)));
  ids.resize(std::min(ids.size(), most));
  return ids;
}

using Rows = std::vector<std::vector<float>>;

Rows whole(Model& model, std::span<const int32_t> ids) {
  Rows rows;
  SequenceReader reader(model, std::ssize(ids));
  reader.feed_all(ids, [&](int32_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  });
  return rows;
}

// Runs `ids` in chunks of `size` and compares the logits after the last token of each chunk;
// returns the first position that differs, or -1.
int64_t first_difference(Model& model, std::span<const int32_t> ids, const Rows& rows,
                         size_t size) {
  SequenceReader reader(model, std::ssize(ids));
  for (size_t begin = 0; begin < ids.size(); begin += size) {
    const size_t count = std::min(size, ids.size() - begin);
    reader.feed(ids.subspan(begin, count));
    const size_t last = begin + count - 1;
    if (!std::ranges::equal(reader.logits(), rows[last])) return static_cast<int64_t>(last);
  }
  return -1;
}

bool check_finite(const Rows& rows, Report& report) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto bad = std::ranges::count_if(rows[i], [](float x) { return !std::isfinite(x); });
    if (bad == 0) continue;
    report.add({"finite logits", CheckState::kFail,
                fmt::format("after token {}: {} of {} are NaN or infinite", i, bad, rows[i].size()),
                "finite numbers", "values overflow: a scale of the configuration is wrong"});
    return false;
  }
  const auto [least, most] = std::ranges::minmax(rows.back());
  if (least == most)
    report.add({"finite logits", CheckState::kFail, fmt::format("all logits are {}", least),
                "values that differ", "the output head or its norm is empty"});
  else
    report.ok("finite logits", fmt::format("from {:.3g} to {:.3g}", least, most));
  return least != most;
}

void check_one_answer(Model& model, std::span<const int32_t> ids, const Rows& rows,
                      Report& report) {
  struct Way {
    const char* name;
    size_t size;
  };
  for (const auto& [what, size] : {Way{"token by token", 1}, Way{"chunks of 7", 7}}) {
    const int64_t at = first_difference(model, ids, rows, size);
    const std::string name = fmt::format("{}", what);
    if (at < 0)
      report.ok(name, fmt::format("same bits as in one chunk, {} tokens", ids.size()));
    else
      report.add({name, CheckState::kFail, fmt::format("logits differ after token {}", at),
                  "the same bits", "a bug in veery: please report it with the model"});
  }
}

void check_sensitivity(Model& model, std::vector<int32_t> ids, const Rows& rows, Report& report) {
  if (ids.size() < 4) return;
  const auto last_after = [&](std::span<const int32_t> changed) {
    SequenceReader reader(model, std::ssize(changed));
    reader.feed(changed);
    return std::ranges::equal(reader.logits(), rows.back());
  };
  std::vector<int32_t> other = ids;
  other[1] = other[1] == 0 ? 1 : other[1] - 1;
  const bool ignores_context = last_after(other);
  other = ids;
  const auto next = std::ranges::find_if(other.begin() + 2, other.end() - 1,
                                         [&](int32_t id) { return id != other[1]; });
  bool unordered = false;
  if (next != other.end() - 1) {
    std::swap(other[1], *next);
    unordered = last_after(other);
  }
  if (ignores_context || unordered)
    report.add({"context", CheckState::kWarn,
                ignores_context ? "replacing the second token does not change the last logits"
                                : "the order of earlier tokens does not change the last logits",
                "other logits", "attention or positions have no effect"});
  else
    report.ok("context", "earlier tokens and their order change the last logits");
}

void check_english(Model& model, std::span<const int32_t> ids, Report& report) {
  if (model.config().source.layers > 0)
    return report.skip("plain English", "the model is a speech model");
  if (model.tokenizer().size() == 0 || ids.size() < 8)
    return report.skip("plain English", "the model has no tokenizer");
  double sum = 0;
  SequenceReader reader(model, std::ssize(ids));
  reader.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
    const auto next = static_cast<size_t>(position) + 1;
    if (next < ids.size()) sum += log_sum_exp(logits) - logits[static_cast<size_t>(ids[next])];
  });
  const double mean = sum / static_cast<double>(ids.size() - 1);
  const double chance = std::log(static_cast<double>(model.config().vocab));
  const std::string found = fmt::format("perplexity {:.1f}", std::exp(mean));
  constexpr double kPoor = 5.5;            // perplexity 245
  constexpr int64_t kLeastTrained = 1024;  // vocabulary size; smaller models are test models
  const std::string expected = fmt::format("well below {}, that of chance", model.config().vocab);
  if (mean > chance && model.config().vocab >= kLeastTrained)
    report.add({"plain English", CheckState::kFail, found, expected,
                "the model is untrained or damaged, or the tokenizer does not match the weights"});
  else if (mean > 0.8 * chance)
    report.add({"plain English", CheckState::kWarn, found, expected,
                "the model looks random: untrained, damaged, or computed wrongly"});
  else if (mean > kPoor)
    report.add({"plain English", CheckState::kWarn, found, expected,
                "not a model of English, or one that is damaged or computed wrongly"});
  else
    report.ok("plain English", found);
}

}  // namespace

std::string_view plain_english() {
  return "Water is heavier than ice, and so ice floats on it. In winter a lake freezes from above: "
         "the cold water sinks until all of it is at four degrees, and only then can its surface "
         "become colder and turn into ice. The ice keeps the wind away from the water below, which "
         "therefore stays liquid, and fish can live there until the spring comes. If it were the "
         "other way round, lakes would freeze from the ground up, and in a long winter nothing in "
         "them would survive. People have walked and driven across frozen lakes for centuries. "
         "They learned to look at the colour of the ice before they went out, because clear blue "
         "ice is strong and white ice, which has snow and air in it, is only half as strong.";
}

void check_runs(Model& model, Report& report) {
  const std::vector<int32_t> text = some_ids(model, kScored);
  const std::vector<int32_t> ids(text.begin(),
                                 text.begin() + std::ssize(text) -
                                     std::max<int64_t>(0, std::ssize(text) - int64_t{kCompared}));
  const Rows rows = whole(model, ids);
  if (!check_finite(rows, report)) return;
  check_one_answer(model, ids, rows, report);
  check_sensitivity(model, ids, rows, report);
  check_english(model, text, report);
}

}  // namespace veery
