// special_tokens.h: special tokens: their roles (BOS, end of turn ...) and how they are matched in
// text.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace veery {

/// U+2581, LOWER ONE EIGHTH BLOCK, which SentencePiece uses for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// Patterns of a tokenizer.json that together emulate SentencePiece's removal of extra spaces.
inline constexpr std::string_view kSpaceRuns = " {2,}";
inline constexpr std::string_view kEdgeSpaces = R"(\A +| +\z)";

/// Ids and flags used if the metadata does not specify them.
struct SpecialDefaults {
  int32_t bos = -1, eos = -1, unknown = -1;
  bool add_bos = false;
};

/// Metadata key for the end-of-answer ids listed in generation_config.json and config.json of a
/// model folder. GGUF has no such list.
inline constexpr const char* kEndIdsKey = "generation.eos_token_ids";

/// Reads `tokenizer.ggml.*_token_id`, finds well-known end tokens by name and corrects their token
/// type. If kEndIdsKey is present, only these ids, EOS and the named tokens that occur in
/// `tokenizer.chat_template` end an answer. Throws kFormat for a BOS, EOS, EOT or EOM outside the
/// vocabulary; other ids outside it are dropped.
Tokenizer::Special resolve_special(const Metadata& metadata, const SpecialDefaults& defaults,
                                   Vocabulary& vocabulary);

/// Returns the separator token between two texts (zero or one id), which follows the EOS of the
/// first text. It exists if tokenizer.ggml.add_sep_token is true (default: `otherwise`); its id is
/// tokenizer.ggml.seperator_token_id (GGUF's spelling, default: `eos`) and may be outside the
/// vocabulary.
std::vector<int32_t> separator_of(const Metadata& metadata, int64_t eos, bool otherwise);

/// Returns whether a token of this name structures a prompt even if the file gives it another type:
/// the end of a turn or a mark of Harmony.
bool is_control_name(std::string_view name);

/// Returns `text` without the guard marks of EncodeOptions::guard.
std::string without_guard(std::string_view text, std::string_view guard);

/// Returns whether this token keeps the spaces after it, unlike other special tokens of its family
/// (Phi-3).
bool keeps_spaces_after(std::string_view token);

/// Matches control, user-defined and unknown tokens in text: leftmost, then longest.
class SpecialMatcher {
 public:
  struct Options {
    bool strip_after = false;       ///< special tokens absorb the spaces after them (Phi-3)
    bool spaces_are_marks = false;  ///< a run of U+2581 also matches the token of that many spaces
  };
  SpecialMatcher(const Vocabulary& vocabulary, const Options& options);

  /// Whether some user-defined token is a run of spaces and none contains U+2581 (Gemma).
  bool has_space_runs() const { return has_space_runs_; }

  struct Match {
    int32_t id = -1;  ///< -1: none
    size_t begin = 0, end = 0;
  };
  /// Returns the first match at or after `from`. Control and unknown tokens match only if
  /// `parse_special`.
  Match next(std::string_view text, size_t from, bool parse_special) const;

 private:
  struct Entry {
    std::string_view text;  // points into the vocabulary or marks_
    int32_t id;
    bool control, strip_after;
  };
  const Entry* longest_at(std::string_view rest, bool parse_special) const;

  bool has_space_runs_ = false;
  std::deque<std::string> marks_;          // texts that the vocabulary does not contain
  std::vector<Entry> entries_;             // sorted by text
  std::array<uint32_t, 257> first_{};      // first byte b: entries [first_[b], first_[b + 1])
  std::array<uint8_t, 256> user_first_{};  // first bytes of user-defined tokens
};

}  // namespace veery
