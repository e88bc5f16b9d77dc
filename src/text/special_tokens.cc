#include "text/special_tokens.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"

namespace veery {
namespace {

enum class Role { kTurnEnd, kMessageEnd, kEnd };

// Names that have the same meaning in every vocabulary. `reliable`: the name is so unusual that the
// token is a control token even if the file gives it another type. The other names also occur in
// HTML and similar text.
struct KnownEnd {
  std::string_view name;
  Role role;
  bool reliable;
};

// The first kTurnEnd in the vocabulary becomes `eot`.
constexpr KnownEnd kKnownEnds[] = {
    {"<|eot_id|>", Role::kTurnEnd, true},
    {"<|im_end|>", Role::kTurnEnd, true},
    {"<|end|>", Role::kTurnEnd, true},
    {"<end_of_turn>", Role::kTurnEnd, true},
    {"<turn|>", Role::kTurnEnd, true},
    {"<EOT>", Role::kTurnEnd, false},
    {"_<EOT>", Role::kTurnEnd, false},
    {"[EOT]", Role::kTurnEnd, false},
    {"<end_of_utterance>", Role::kTurnEnd, true},
    {"<|endoftext|>", Role::kTurnEnd, true},
    {"<|end_of_text|>", Role::kTurnEnd, true},
    {"<｜end▁of▁sentence｜>", Role::kTurnEnd, true},
    {"<|eom_id|>", Role::kMessageEnd, true},
    {"<|return|>", Role::kEnd, true},
    {"<|call|>", Role::kEnd, true},
    {"<|calls|>", Role::kEnd, true},
    {"<|flush|>", Role::kEnd, true},
    {"<|tool_response>", Role::kEnd, true},
    {"[e~[", Role::kEnd, true},
    {"</s>", Role::kEnd, false},
    {"<eos>", Role::kEnd, false},
    {"[EOS]", Role::kEnd, false},
    {"<|fim_pad|>", Role::kEnd, true},
    {"<|repo_name|>", Role::kEnd, true},
    {"<|file_sep|>", Role::kEnd, true},
};

// Marks of the Harmony format, which must remain visible in the decoded text.
constexpr std::string_view kHarmonyMarks[] = {"<|channel|>", "<|message|>", "<|start|>",
                                              "<|constrain|>"};

// A missing value, -1 and its unsigned 32-bit form all mean "none".
std::optional<int64_t> read_id(const Metadata& metadata, const std::string& key) {
  const std::optional<int64_t> id = metadata.integer(key);
  if (id && (*id == -1 || *id == 0xFFFFFFFF)) return -1;
  return id;
}

int32_t checked_id(const Metadata& metadata, const std::string& key, int32_t size,
                   int32_t fallback) {
  const std::optional<int64_t> id = read_id(metadata, key);
  if (!id) return fallback < size ? fallback : -1;
  if (*id < -1 || *id >= size)
    throw Error(ErrorKind::kFormat, "{} is {}, outside the vocabulary of {} tokens", key, *id,
                size);
  return static_cast<int32_t>(*id);
}

int32_t lenient_id(const Metadata& metadata, const std::string& key, int32_t size,
                   int32_t fallback) {
  const std::optional<int64_t> id = read_id(metadata, key);
  if (!id) return fallback < size ? fallback : -1;
  return *id >= 0 && *id < size ? static_cast<int32_t>(*id) : -1;
}

void find_known_ends(Vocabulary& vocabulary, Tokenizer::Special& special, int32_t& message_end) {
  const auto is_known = [&](std::string_view name) { return vocabulary.find_written(name) >= 0; };
  // In Harmony and similar formats <|end|> ends a message but not the answer.
  const bool harmony = is_known("<|end|>") && ((is_known("<|return|>") && is_known("<|call|>")) ||
                                               (is_known("<|flush|>") && is_known("<|calls|>")));
  for (const KnownEnd& known : kKnownEnds) {
    const int32_t id = vocabulary.find_written(known.name);
    if (id < 0 || (!known.reliable && vocabulary.type(id) != TokenType::kControl)) continue;
    if (harmony && known.name == "<|end|>") {
      vocabulary.set_type(id, TokenType::kUserDefined);
      continue;
    }
    vocabulary.set_type(id, TokenType::kControl);
    special.ends.push_back(id);
    if (known.role == Role::kTurnEnd && special.eot < 0) special.eot = id;
    if (known.role == Role::kMessageEnd && message_end < 0) message_end = id;
  }
  for (const std::string_view name : kHarmonyMarks) {
    const int32_t id = vocabulary.find_written(name);
    if (id >= 0) vocabulary.set_type(id, TokenType::kUserDefined);
  }
}

// If a folder lists its end tokens, others end an answer only if its template contains them.
void keep_listed_ends(const Metadata& metadata, const std::vector<int64_t>& listed,
                      const Vocabulary& vocabulary, std::vector<int32_t>& ends) {
  const std::string source = metadata.text("tokenizer.chat_template").value_or("");
  std::erase_if(
      ends, [&](int32_t id) { return source.find(vocabulary.written(id)) == std::string::npos; });
  for (const int64_t id : listed)
    if (id >= 0 && id < vocabulary.size()) ends.push_back(static_cast<int32_t>(id));
}

}  // namespace

Tokenizer::Special resolve_special(const Metadata& metadata, const SpecialDefaults& defaults,
                                   Vocabulary& vocabulary) {
  const int32_t size = vocabulary.size();
  Tokenizer::Special special;
  special.bos = checked_id(metadata, "tokenizer.ggml.bos_token_id", size, defaults.bos);
  special.eos = checked_id(metadata, "tokenizer.ggml.eos_token_id", size, defaults.eos);
  special.eot = checked_id(metadata, "tokenizer.ggml.eot_token_id", size, -1);
  int32_t message_end = checked_id(metadata, "tokenizer.ggml.eom_token_id", size, -1);
  special.unknown = lenient_id(metadata, "tokenizer.ggml.unknown_token_id", size, defaults.unknown);
  special.pad = lenient_id(metadata, "tokenizer.ggml.padding_token_id", size, -1);
  special.add_bos = metadata.boolean("tokenizer.ggml.add_bos_token").value_or(defaults.add_bos);
  special.add_eos = metadata.boolean("tokenizer.ggml.add_eos_token").value_or(false);
  std::vector<int32_t> given = {special.eos, special.eot, message_end};
  find_known_ends(vocabulary, special, message_end);
  if (const auto* listed = metadata.integers(kEndIdsKey))
    keep_listed_ends(metadata, *listed, vocabulary, special.ends);
  for (const int32_t id : given)
    if (id >= 0) special.ends.push_back(id);
  std::sort(special.ends.begin(), special.ends.end());
  special.ends.erase(std::unique(special.ends.begin(), special.ends.end()), special.ends.end());
  return special;
}

std::vector<int32_t> separator_of(const Metadata& metadata, int64_t eos, bool otherwise) {
  if (!metadata.boolean("tokenizer.ggml.add_sep_token").value_or(otherwise)) return {};
  const int64_t id = read_id(metadata, "tokenizer.ggml.seperator_token_id").value_or(eos);
  if (id < 0 || id > INT32_MAX) return {};
  return {static_cast<int32_t>(id)};
}

bool is_control_name(std::string_view name) {
  const auto is_end = [&](const KnownEnd& known) { return known.reliable && known.name == name; };
  return std::ranges::any_of(kKnownEnds, is_end) ||
         std::ranges::find(kHarmonyMarks, name) != std::end(kHarmonyMarks);
}

std::string without_guard(std::string_view text, std::string_view guard) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = guard.empty() ? text.size() : std::min(text.find(guard, at), text.size());
    out += text.substr(at, end - at);
    at = end + guard.size();
    if (end == text.size()) break;
  }
  return out;
}

bool keeps_spaces_after(std::string_view token) {
  return token == "<unk>" || token == "<s>" || token == "<|endoftext|>";
}

SpecialMatcher::SpecialMatcher(const Vocabulary& vocabulary, const Options& options) {
  bool marks = false;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const bool user = type == TokenType::kUserDefined;
    if (!user && type != TokenType::kControl && type != TokenType::kUnknown) continue;
    const std::string_view text = vocabulary.bytes(id);
    if (text.empty()) continue;
    const bool strip = options.strip_after && !keeps_spaces_after(text);
    entries_.push_back({text, id, !user, strip});
    if (user) user_first_[static_cast<unsigned char>(text[0])] = 1;
    marks |= text.find(kSpaceMark) != std::string_view::npos;
    if (!user || !options.spaces_are_marks || text.find_first_not_of(' ') != text.npos) continue;
    has_space_runs_ = true;
    std::string& run = marks_.emplace_back();
    for (size_t i = 0; i < text.size(); ++i) run += kSpaceMark;
    entries_.push_back({run, id, false, strip});
    user_first_[static_cast<unsigned char>(kSpaceMark[0])] = 1;
  }
  has_space_runs_ &= !marks;
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  for (const Entry& entry : entries_) ++first_[static_cast<unsigned char>(entry.text[0]) + 1U];
  for (size_t byte = 0; byte < 256; ++byte) first_[byte + 1] += first_[byte];
}

// Narrows the sorted range byte by byte. An entry of the current length is the first of its range.
const SpecialMatcher::Entry* SpecialMatcher::longest_at(std::string_view rest,
                                                        bool parse_special) const {
  const auto byte_at = [&](size_t i) { return static_cast<unsigned char>(rest[i]); };
  const Entry* low = entries_.data() + first_[byte_at(0)];
  const Entry* high = entries_.data() + first_[byte_at(0) + 1U];
  const Entry* best = nullptr;
  for (size_t length = 1; low < high; ++length) {
    for (; low < high && low->text.size() == length; ++low)
      if (!best || best->text.size() < length)
        if (parse_special || !low->control) best = low;
    if (length >= rest.size()) break;
    const unsigned char byte = byte_at(length);
    low = std::partition_point(low, high, [&](const Entry& entry) {
      return static_cast<unsigned char>(entry.text[length]) < byte;
    });
    high = std::partition_point(low, high, [&](const Entry& entry) {
      return static_cast<unsigned char>(entry.text[length]) <= byte;
    });
  }
  return best;
}

SpecialMatcher::Match SpecialMatcher::next(std::string_view text, size_t from,
                                           bool parse_special) const {
  for (size_t at = from; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (parse_special ? first_[byte] == first_[byte + 1U] : user_first_[byte] == 0) continue;
    const Entry* entry = longest_at(text.substr(at), parse_special);
    if (!entry) continue;
    size_t end = at + entry->text.size();
    if (entry->strip_after)
      while (end < text.size() && (text[end] == ' ' || (text[end] >= '\t' && text[end] <= '\r')))
        ++end;
    return {entry->id, at, end};
  }
  return {};
}

}  // namespace veery
