#include "cli/args/token_ids.h"

#include <fmt/format.h>

#include <charconv>

#include "base/printable.h"
#include "base/random.h"
#include "cli/args/arguments.h"
#include "cli/output/output.h"
#include "engine/model.h"
#include "text/tokenizer.h"

namespace veery::cli {

std::vector<int32_t> parse_ids(const std::string& text, const std::string& flag) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    const bool separated = next == end || (*next == ',' && next + 1 < end);
    if (error != std::errc() || id < 0 || !separated)
      throw Misuse(flag, fmt::format("found '{}', expected token ids such as 1,2,3", text));
    ids.push_back(id);
    at = next == end ? end : next + 1;
    while (at < end && *at == ' ') ++at;
  }
  if (ids.empty()) throw Misuse(flag, "found no token ids, expected a list such as 1,2,3");
  return ids;
}

void check_ids(const std::vector<int32_t>& ids, const Model& model, const std::string& flag) {
  for (const int32_t id : ids)
    if (id >= model.config().vocab)
      throw Misuse(
          flag, fmt::format("found token id {}, expected 0 to {}", id, model.config().vocab - 1));
}

std::vector<int32_t> any_tokens(const Model& model, size_t count) {
  Random random(1);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random.next() % static_cast<uint32_t>(model.config().vocab));
  return tokens;
}

void warn_lost(const LostBytes& lost, std::string_view what) {
  if (lost.count == 0) return;
  write_error(
      fmt::format("veery: the vocabulary has no token for {} byte{} of {}, the first at offset {}: "
                  "left out\n",
                  lost.count, lost.count == 1 ? "" : "s", printable(what), lost.first));
}

Json lost_json(const LostBytes& lost) { return {{"bytes", lost.count}, {"first", lost.first}}; }

}  // namespace veery::cli
