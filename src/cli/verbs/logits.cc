// logits.cc: `veery logits`: prints the largest logits after tokens of a text.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "chat/chat.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/text_arguments.h"
#include "cli/args/token_ids.h"
#include "cli/output/output.h"
#include "cli/verbs/verbs.h"
#include "engine/sequence_reader.h"
#include "sample/sampler.h"

namespace veery::cli {
namespace {

struct Position {
  int32_t position = 0;
  int32_t token = 0;
  double logsumexp = 0;
  std::vector<std::pair<int32_t, float>> top;
  std::optional<std::pair<int32_t, double>> next;  ///< id and log-probability
};

std::vector<std::pair<int32_t, float>> largest(std::span<const float> logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  const auto at = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
      [&](int32_t a, int32_t b) { return at(a) > at(b) || (at(a) == at(b) && a < b); });
  std::vector<std::pair<int32_t, float>> top;
  for (size_t i = 0; i < count; ++i) top.emplace_back(ids[i], at(ids[i]));
  return top;
}

Position describe(std::span<const int32_t> ids, int32_t position, std::span<const float> logits,
                  size_t count) {
  const auto place = static_cast<size_t>(position);
  Position result{.position = position,
                  .token = ids[place],
                  .logsumexp = log_sum_exp(logits),
                  .top = largest(logits, count),
                  .next = std::nullopt};
  if (place + 1 < ids.size()) {
    const int32_t next = ids[place + 1];
    result.next.emplace(next, logits[static_cast<size_t>(next)] - result.logsumexp);
  }
  return result;
}

Json to_json(const std::vector<Position>& positions) {
  Json list = Json::array();
  for (const Position& position : positions) {
    Json top = Json::array();
    for (const auto& [id, logit] : position.top) top.push_back({{"id", id}, {"logit", logit}});
    Json item = {{"position", position.position},
                 {"token", position.token},
                 {"logsumexp", position.logsumexp},
                 {"top", std::move(top)}};
    if (position.next)
      item["next"] = {{"id", position.next->first}, {"logprob", position.next->second}};
    list.push_back(std::move(item));
  }
  return {{"positions", std::move(list)}};
}

void print(const std::vector<Position>& positions, const Tokenizer& tokenizer) {
  Output& out = standard_output();
  const auto token = [&](int32_t id) {
    return id < tokenizer.size() ? escaped(tokenizer.token(id)) : std::string();
  };
  for (const Position& position : positions) {
    out.line(fmt::format("position {}: after {} {}, logsumexp {:.5f}", position.position,
                         position.token, token(position.token), position.logsumexp));
    for (const auto& [id, logit] : position.top)
      out.line(fmt::format("  {:>7}  {:>10.5f}  {:>7.3f} %  {}", id, logit,
                           100 * std::exp(logit - position.logsumexp), token(id)));
    if (position.next)
      out.line(fmt::format("  next: {} {}, log-probability {:.5f}", position.next->first,
                           token(position.next->first), position.next->second));
  }
}

/// The tokens of the command line: ids, or a text for the tokenizer of the model.
struct Input {
  std::optional<std::string> id_list;
  std::vector<int32_t> ids = {};
  std::string text = {};
};

// Reads the input before the model is loaded, so that errors in it are reported at once.
void read_input(Input& input, const TextArguments& text) {
  if (input.id_list) {
    input.ids = parse_ids(*input.id_list, "--ids");
    return;
  }
  if (!text.given()) throw Misuse("missing text, expected -p, -f or --ids");
  input.text = text.read();
  if (text.file && input.text.ends_with('\n')) input.text.pop_back();
}

std::vector<int32_t> ids_of(const Input& input, const Model& model) {
  if (input.id_list) {
    check_ids(input.ids, model, "--ids");
    return input.ids;
  }
  LostBytes lost;
  std::vector<int32_t> ids = encode_prompt(model.tokenizer(), input.text, &lost);
  warn_lost(lost, "the text");
  if (ids.empty())
    throw Error(ErrorKind::kInput, "found a text without tokens, expected one or more");
  return ids;
}

}  // namespace

void logits_verb(std::vector<std::string> arguments) {
  ModelArguments flags;
  TextArguments text;
  Input input;
  bool all = false;
  size_t top = 10;
  Arguments app("logits",
                "Prints the largest logits after a text, and their probabilities.\nBOS is added to "
                "a text if the model requires it, never to --ids.",
                "  veery logits model.gguf -p \"The capital of France is\" --top 5");
  flags.add_path(app);
  const auto source = text.add(app, "TEXT", "Text to read");
  app.option("--ids", input.id_list, "Token ids instead of a text, used unchanged: 1,2,3")
      .type_name("IDS")
      .excludes(source.prompt)
      .excludes(source.file);
  app.flag("--all", all, "Print the logits after every token, not only after the last");
  app.option("--top", top, "Number of logits to print")
      .type_name("K")
      .whole_number(0, std::numeric_limits<int32_t>::max())
      .show_default();
  flags.add_context(app);
  flags.add_threads(app);
  flags.add_exact(app);
  flags.add_cache_types(app);
  flags.add_device(app);
  flags.add_gpu_layers(app);
  flags.add_json(app, "Print a JSON object: positions");
  app.read(std::move(arguments));
  text.join_words(app, {"--ids"});
  read_input(input, text);
  Model model = flags.load();
  const std::vector<int32_t> ids = ids_of(input, model);
  SequenceReader reader(model, std::ssize(ids));
  std::vector<Position> positions;
  if (all) {
    reader.feed_all(ids, [&](int32_t position, std::span<const float> logits) {
      positions.push_back(describe(ids, position, logits, top));
    });
  } else {
    reader.feed(ids);
    positions.push_back(describe(ids, reader.position() - 1, reader.logits(), top));
  }
  if (flags.json) {
    standard_output().json(to_json(positions));
  } else {
    print(positions, model.tokenizer());
  }
}

}  // namespace veery::cli
