// tokenizer.cc: checks that text survives encoding and decoding, and that special tokens exist.
#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "verify/parts.h"

namespace veery {
namespace {

constexpr std::string_view kTexts[] = {
    "Hello, world!",
    "It's 12,345.67 or 1e-9; isn't it? We'll see: they've \"quoted\" (it).",
    "def f(x):\n    if x > 0:\n\treturn [x**2, {'k': -1}]\n\n\n",
    "one  two   three    four",
    "tabs\tand\t\ttabs, lines\r\nand\n\nlines",
    "Grüße aus Köln, naïve façade, Ærøskøbing, ŁÓDŹ, İstanbul",
    "Привет, мир! Καλημέρα κόσμε. שלום עולם. مرحبا بالعالم",
    "你好，世界。こんにちは世界。안녕하세요 세계. สวัสดีชาวโลก हिन्दी",
    "😀👍🏽👩‍👩‍👧‍👦🏳️‍🌈 ½ ∑ ≠ → €",
    "e\u0301 a\u0308\u0323 \u200b\u00a0\u2003|\u2028|\ufeff",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "https://example.org/a?b=c&d=%20#e <tag attr=\"v\">&amp;</tag> $\\alpha_{i}^{2}$",
    "3.14159265358979 0x7fffffff 000 1,000,000 ١٢٣ ⅷ",
    "\x01\x02\x1b[0m\x7f",
};

struct Trips {
  int64_t changed = 0;           ///< texts that are normalised once and then stay the same
  std::vector<std::string> bad;  ///< texts that change each time
  std::string first;
  int64_t beyond = 0;
  int32_t beyond_id = -1;
};

std::string shown(std::string_view text) {
  constexpr size_t kShown = 24;
  size_t end = std::min(text.size(), kShown);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;
  return dump_json(std::string(text.substr(0, end)));
}

Trips round_trips(const Tokenizer& tokenizer, int64_t rows) {
  Trips trips;
  const EncodeOptions plain{.add_special = false, .parse_special = false};
  for (const std::string_view text : kTexts) {
    const std::vector<int32_t> ids = tokenizer.encode(text, plain);
    for (const int32_t id : ids)
      if (id < 0 || id >= tokenizer.size() || (rows > 0 && id >= rows)) {
        ++trips.beyond;
        trips.beyond_id = id;
      }
    const std::string back = tokenizer.decode(ids);
    if (back == text) continue;
    ++trips.changed;
    if (trips.first.empty()) trips.first = fmt::format("{} -> {}", shown(text), shown(back));
    if (tokenizer.decode(tokenizer.encode(back, plain)) != back)
      trips.bad.push_back(fmt::format("{} -> {}", shown(text), shown(back)));
  }
  return trips;
}

void check_round_trip(const Tokenizer& tokenizer, int64_t rows, Report& report) {
  const Trips trips = round_trips(tokenizer, rows);
  if (trips.beyond > 0)
    report.add({"ids", CheckState::kFail, fmt::format("plain text gives id {}", trips.beyond_id),
                fmt::format("less than {}", rows > 0 ? rows : tokenizer.size()),
                "tokenizer and weights belong to different models"});
  else
    report.ok("ids", "the ids of plain text are within the embedding");
  if (!trips.bad.empty())
    report.add({"round trip", CheckState::kWarn, some_of(trips.bad, 2), "the original text",
                "some text has no token, or the decoder does not match the encoder"});
  else if (trips.changed > 0)
    report.ok("round trip", fmt::format("{} of {} texts are normalised, {}", trips.changed,
                                        std::size(kTexts), trips.first));
  else
    report.ok("round trip", fmt::format("{} texts", std::size(kTexts)));
}

// Finds ASCII characters without a token: they are encoded as the unknown token or dropped.
void check_bytes(const Tokenizer& tokenizer, Report& report) {
  const EncodeOptions plain{.add_special = false, .parse_special = false};
  const int32_t unknown = tokenizer.special().unknown;
  std::vector<std::string> lost;
  for (char c = ' ' + 1; c < 0x7F; ++c) {
    const std::vector<int32_t> ids = tokenizer.encode(std::string_view(&c, 1), plain);
    if (ids.empty() || std::ranges::find(ids, unknown) != ids.end()) lost.emplace_back(1, c);
  }
  if (lost.empty())
    report.ok("characters", "all ASCII characters have tokens");
  else
    report.add({"characters", CheckState::kWarn,
                fmt::format("{} ASCII characters have no token: {}", lost.size(), some_of(lost, 8)),
                "a token for each", "the vocabulary is truncated"});
}

struct Role {
  std::string_view what;
  int32_t id;
};

void check_special(const Tokenizer& tokenizer, int64_t rows, Report& report) {
  const Tokenizer::Special& special = tokenizer.special();
  const Role roles[] = {{"BOS", special.bos},
                        {"EOS", special.eos},
                        {"EOT", special.eot},
                        {"unknown", special.unknown},
                        {"pad", special.pad}};
  std::vector<std::string> wrong;
  std::vector<std::string> there;
  for (const auto& [what, id] : roles) {
    if (id < 0) continue;
    if (id >= tokenizer.size() || (rows > 0 && id >= rows)) {
      wrong.push_back(fmt::format("{} is {}, beyond the vocabulary", what, id));
      continue;
    }
    const std::string token = tokenizer.token(id);
    there.push_back(fmt::format("{} {}", what, token));
    const bool marks = what != "unknown" && what != "pad";
    const auto ids = tokenizer.encode(token, {.add_special = false});
    if (marks && std::ranges::find(ids, id) == ids.end())
      wrong.push_back(fmt::format("'{}' ({}) becomes {} other tokens", token, what, ids.size()));
  }
  if (special.add_bos && special.bos < 0)
    wrong.emplace_back("missing BOS token, although BOS is added to prompts");
  if (!wrong.empty())
    report.add({"special tokens", CheckState::kFail, some_of(wrong), "one id each",
                "the types of tokens or their ids are wrong in the file"});
  else if (special.ends.empty())
    report.add({"special tokens", CheckState::kWarn, "no token ends an answer", "an EOS",
                "answers only stop when the context is full"});
  else
    report.ok("special tokens", some_of(there, 5));
}

}  // namespace

void check_tokenizer(const Tokenizer& tokenizer, int64_t rows, Report& report) {
  if (tokenizer.size() == 0) {
    report.add({"tokenizer", CheckState::kWarn, "none: only ids can be used",
                "tokenizer.json or tokenizer.model", "copy the tokenizer's files into the folder"});
    return;
  }
  const auto size = int64_t{tokenizer.size()};
  const std::string found = fmt::format("{} tokens for {} rows", size, rows);
  // The tokenizer of a folder may have some tokens of other parts (images), which the embedding
  // lacks.
  constexpr int64_t kOfOtherParts = 16;
  if (rows > 0 && size > rows + kOfOtherParts)
    report.add({"tokenizer", CheckState::kWarn, found, "no more tokens than rows of the embedding",
                "the last tokens cannot be used"});
  else if (rows > 0 && size * 2 < rows)
    report.add({"tokenizer", CheckState::kWarn, found, "a token for nearly every row",
                "tokenizer and weights belong to different models"});
  else
    report.ok("tokenizer", found);
  check_round_trip(tokenizer, rows, report);
  check_bytes(tokenizer, report);
  check_special(tokenizer, rows, report);
}

}  // namespace veery
