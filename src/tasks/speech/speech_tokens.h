// speech_tokens.h: the tokens by which a model of speech is led, and which of them may follow.
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

/// What a model's files say beside its vocabulary (import/folder/speech_keys.h).
struct SpeechKeys {
  std::vector<int32_t> suppressed, suppressed_first;
  bool usual = false;                 ///< those that OpenAI's code takes, add_usual()
  std::optional<int32_t> first_time;  ///< the largest position of the first time; absent: any
  std::optional<bool> multilingual;
  std::vector<std::pair<int32_t, int32_t>> alignment_heads;  ///< layer and head
};
/// Throws kFormat naming a list that holds what is no token of the vocabulary, or no head.
SpeechKeys read_speech_keys(const ModelFile& file, const TransformerConfig& config);

/// A language of the model: "en" and the id of <|en|>.
struct SpeechLanguage {
  std::string code;
  int32_t id = -1;
};

/// Ids of special tokens; -1: the model has no such token. Times are tokens from `first_time` on, a
/// position of the encoder each (0.02 s), the last one being the end of the window.
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
  /// Neither text nor time.
  bool is_special(int32_t id) const { return id >= end && id < first_time; }
};
/// Throws kUnsupported naming what is missing, if the vocabulary is not Whisper's.
SpeechTokens find_speech_tokens(const Tokenizer& tokenizer, const SpeechKeys& keys,
                                const TransformerConfig& config);

/// Adds what OpenAI's code suppresses: signs that are not spoken, and at first a space and the end.
void add_usual(SpeechKeys& keys, const Tokenizer& tokenizer, const SpeechTokens& tokens);

/// "en" of "en", "English" or "english". Throws kInput naming what there is.
const SpeechLanguage& find_language(const SpeechTokens& tokens, std::string_view name);

/// What every next token has to obey (Radford et al., arXiv:2212.04356, and their code): logits of
/// what must not follow become -infinity.
class SpeechRules {
 public:
  SpeechRules(const SpeechTokens& tokens, const SpeechKeys& keys);

  /// `said`: tokens of this window so far, without the prompt; without `times` none is said.
  void apply(std::span<const int32_t> said, bool times, std::span<float> logits) const;

 private:
  void apply_times(std::span<const int32_t> said, std::span<float> logits) const;

  const SpeechTokens& tokens_;
  std::vector<int32_t> never_, not_first_;
  std::optional<int32_t> first_time_;
};

}  // namespace veery
