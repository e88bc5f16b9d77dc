// speech_tokens.h: special tokens of Whisper models, and rules for the next token.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file/model_file.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace veery {

/// Settings of a speech model that its vocabulary does not contain (import/folder/speech_keys.h).
struct SpeechKeys {
  std::vector<int32_t> suppressed, suppressed_first;
  bool usual = false;                 ///< use the tokens of OpenAI's code, add_usual()
  std::optional<int32_t> first_time;  ///< largest position of the first time token; absent: any
  std::optional<bool> multilingual;
  std::vector<std::pair<int32_t, int32_t>> alignment_heads;  ///< layer and head
};
/// Reads the settings. Throws kFormat naming a list with an id or head out of range.
SpeechKeys read_speech_keys(const ModelFile& file, const TransformerConfig& config);

/// A language of the model: "en" and the id of <|en|>.
struct SpeechLanguage {
  std::string code;
  int32_t id = -1;
};

/// Ids of special tokens; -1: absent. Time tokens start at `first_time`, one per encoder position
/// (0.02 s); the last one is the end of the window.
struct SpeechTokens {
  int32_t end = -1, start = -1;  ///< <|endoftext|>, <|startoftranscript|>
  int32_t transcribe = -1, translate = -1;
  int32_t previous = -1;   ///< <|startofprev|>
  int32_t no_speech = -1;  ///< <|nospeech|>
  int32_t no_times = -1;   ///< <|notimestamps|>
  int32_t first_time = -1;
  bool multilingual = false;
  std::vector<SpeechLanguage> languages;

  bool is_time(int32_t id) const { return id >= first_time; }
  /// Whether the token is neither text nor time.
  bool is_special(int32_t id) const { return id >= end && id < first_time; }
};
/// Finds the tokens. Throws kUnsupported naming a missing token if the vocabulary is not Whisper's.
SpeechTokens find_speech_tokens(const Tokenizer& tokenizer, const SpeechKeys& keys,
                                const TransformerConfig& config);

/// Adds the tokens that OpenAI's code suppresses: signs that are not spoken and, as the first
/// token, a space and the end.
void add_usual(SpeechKeys& keys, const Tokenizer& tokenizer, const SpeechTokens& tokens);

/// Finds a language by "en", "English" or "english". Throws kInput listing the languages.
const SpeechLanguage& find_language(const SpeechTokens& tokens, std::string_view name);

/// Rules for the next token (Radford et al., arXiv:2212.04356, and their code): sets logits of
/// tokens that must not follow to -infinity.
class SpeechRules {
 public:
  SpeechRules(const SpeechTokens& tokens, const SpeechKeys& keys);

  /// `said`: tokens of this window so far, without the prompt. `times`: whether time tokens may
  /// occur.
  void apply(std::span<const int32_t> said, bool times, std::span<float> logits) const;

 private:
  void apply_times(std::span<const int32_t> said, std::span<float> logits) const;

  const SpeechTokens& tokens_;
  std::vector<int32_t> never_, not_first_;
  std::optional<int32_t> first_time_;
};

}  // namespace veery
