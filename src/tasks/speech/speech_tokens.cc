#include "tasks/speech/speech_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/printable.h"
#include "import/folder/speech_keys.h"
#include "text/languages.h"

namespace veery {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<int32_t> ids_of(const ModelFile& file, const char* key, int64_t vocab) {
  const std::vector<int64_t>* list = file.metadata.integers(key);
  std::vector<int32_t> ids;
  if (list == nullptr) return ids;
  for (const int64_t id : *list) {
    if (id == -1) continue;
    if (id < 0 || id >= vocab)
      throw Error(ErrorKind::kFormat, "{}: {} has {}, expected token ids from 0 to {}", file.path,
                  key, id, vocab - 1);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// Returns log(sum(exp(x))); -infinity if all logits are.
double log_sum(std::span<const float> x) {
  const float largest = *std::ranges::max_element(x);
  if (largest == kNever) return kNever;
  double sum = 0;
  for (const float value : x) sum += std::exp(static_cast<double>(value - largest));
  return largest + std::log(sum);
}

}  // namespace

SpeechKeys read_speech_keys(const ModelFile& file, const TransformerConfig& config) {
  SpeechKeys keys;
  keys.suppressed = ids_of(file, kSuppressKey, config.vocab);
  keys.suppressed_first = ids_of(file, kSuppressFirstKey, config.vocab);
  const std::vector<int64_t>* list = file.metadata.integers(kSuppressKey);
  keys.usual = list != nullptr && std::ranges::find(*list, -1) != list->end();
  if (const auto first = file.metadata.integer(kFirstTimeKey); first && *first >= 0)
    keys.first_time = static_cast<int32_t>(std::min<int64_t>(*first, config.source.positions));
  keys.multilingual = file.metadata.boolean(kMultilingualKey);
  const std::vector<int64_t>* heads = file.metadata.integers(kAlignmentKey);
  for (size_t i = 0; heads != nullptr && i + 1 < heads->size(); i += 2) {
    const int64_t layer = (*heads)[i], head = (*heads)[i + 1];
    if (layer < 0 || layer >= config.layers || head < 0 || head >= config.attention.heads)
      throw Error(ErrorKind::kFormat,
                  "{}: {} has head {} of layer {}, expected {} heads in {} layers", file.path,
                  kAlignmentKey, head, layer, config.attention.heads, config.layers);
    keys.alignment_heads.emplace_back(static_cast<int32_t>(layer), static_cast<int32_t>(head));
  }
  return keys;
}

SpeechTokens find_speech_tokens(const Tokenizer& tokenizer, const SpeechKeys& keys,
                                const TransformerConfig& config) {
  const auto find = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (const auto id = tokenizer.find(name); id && *id < config.vocab) return *id;
    return -1;
  };
  SpeechTokens t{.end = find({"<|endoftext|>"}),
                 .start = find({"<|startoftranscript|>"}),
                 .transcribe = find({"<|transcribe|>"}),
                 .translate = find({"<|translate|>"}),
                 .previous = find({"<|startofprev|>"}),
                 .no_speech = find({"<|nospeech|>", "<|nocaptions|>"}),
                 .no_times = find({"<|notimestamps|>"})};
  for (const auto& [name, id] : {std::pair{"<|endoftext|>", t.end},
                                 {"<|startoftranscript|>", t.start},
                                 {"<|notimestamps|>", t.no_times}})
    if (id < 0)
      throw Error(ErrorKind::kUnsupported,
                  "the vocabulary has no token {}, expected that of a Whisper model", name);
  t.first_time = t.no_times + 1;
  if (t.first_time >= config.vocab || t.start <= t.end)
    throw Error(ErrorKind::kUnsupported,
                "found tokens {} to {} of {} in an unknown order, expected Whisper's", t.end,
                t.no_times, config.vocab);
  for (const Language& language : languages())
    if (const int32_t id = find({fmt::format("<|{}|>", language.code).c_str()}); id >= 0)
      t.languages.push_back({std::string(language.code), id});
  constexpr int64_t kMultilingualVocab = 51865;
  t.multilingual = keys.multilingual.value_or(config.vocab >= kMultilingualVocab) &&
                   !t.languages.empty() && t.transcribe >= 0;
  return t;
}

// Suppresses signs that are one token, alone or after a space; signs of music even if they are
// several tokens.
void add_usual(SpeechKeys& keys, const Tokenizer& tokenizer, const SpeechTokens& tokens) {
  constexpr std::string_view kSigns[] = {
      "\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",  ">",
      "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",  "「",
      "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[", "('",
      "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪"};
  constexpr std::string_view kNotes[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};
  const auto encode = [&](const std::string& text) {
    return tokenizer.encode(text, {.add_special = false, .parse_special = false});
  };
  const auto add = [&](std::string_view sign, bool always) {
    for (const std::string& text : {std::string(sign), " " + std::string(sign)})
      if (const auto ids = encode(text); !ids.empty() && (always || ids.size() == 1))
        keys.suppressed.push_back(ids[0]);
  };
  for (const char* sign : {" -", " '"})
    if (const auto ids = encode(sign); !ids.empty()) keys.suppressed.push_back(ids[0]);
  for (const std::string_view sign : kSigns) add(sign, false);
  for (const std::string_view sign : kNotes) add(sign, true);
  if (const auto ids = encode(" "); !ids.empty()) keys.suppressed_first.push_back(ids[0]);
  keys.suppressed_first.push_back(tokens.end);
}

const SpeechLanguage& find_language(const SpeechTokens& tokens, std::string_view name) {
  const std::string code = language_code(std::string(name));
  std::string known;
  for (const SpeechLanguage& language : tokens.languages) {
    if (language.code == code) return language;
    known += (known.empty() ? "" : ", ") + language.code;
  }
  throw Error(ErrorKind::kInput, "unknown language '{}', expected one of {}", printable(name),
              known);
}

SpeechRules::SpeechRules(const SpeechTokens& tokens, const SpeechKeys& keys)
    : tokens_(tokens),
      never_(keys.suppressed),
      not_first_(keys.suppressed_first),
      first_time_(keys.first_time) {
  never_.push_back(tokens.no_times);
  for (const int32_t id :
       {tokens.start, tokens.previous, tokens.no_speech, tokens.transcribe, tokens.translate})
    if (id >= 0) never_.push_back(id);
  for (const SpeechLanguage& language : tokens.languages) never_.push_back(language.id);
}

void SpeechRules::apply(std::span<const int32_t> said, bool times, std::span<float> logits) const {
  for (const int32_t id : never_) logits[static_cast<size_t>(id)] = kNever;
  if (said.empty())
    for (const int32_t id : not_first_) logits[static_cast<size_t>(id)] = kNever;
  if (times)
    apply_times(said, logits);
  else
    std::ranges::fill(logits.subspan(static_cast<size_t>(tokens_.first_time)), kNever);
}

// Time tokens come in pairs (end of a segment, beginning of the next) and never decrease. If all of
// them together are more probable than any text token, a time token follows.
void SpeechRules::apply_times(std::span<const int32_t> said, std::span<float> logits) const {
  const auto text = logits.first(static_cast<size_t>(tokens_.first_time));
  const auto times = logits.subspan(text.size());
  const size_t count = said.size();
  const bool last = count >= 1 && tokens_.is_time(said[count - 1]);
  const bool before = count < 2 || tokens_.is_time(said[count - 2]);
  if (last && before) std::ranges::fill(times, kNever);
  if (last && !before) std::ranges::fill(text.first(static_cast<size_t>(tokens_.end)), kNever);
  const auto latest =
      std::find_if(said.rbegin(), said.rend(), [&](int32_t id) { return tokens_.is_time(id); });
  if (latest != said.rend()) {
    const int32_t least = *latest - tokens_.first_time + (last && !before ? 0 : 1);
    std::ranges::fill(times.first(std::min(static_cast<size_t>(least), times.size())), kNever);
  }
  if (count == 0) {
    std::ranges::fill(text, kNever);
    if (first_time_ && static_cast<size_t>(*first_time_) + 1 < times.size())
      std::ranges::fill(times.subspan(static_cast<size_t>(*first_time_) + 1), kNever);
  }
  if (log_sum(times) > *std::ranges::max_element(text)) std::ranges::fill(text, kNever);
}

}  // namespace veery
