// special_tokens.h: tokens that text names as a whole, and those with a role (BOS, end of an answer
// ...).
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

/// U+2581, LOWER ONE EIGHTH BLOCK: how SentencePiece writes a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// Patterns of a tokenizer.json that together do what SentencePiece does to extra spaces.
inline constexpr std::string_view kSpaceRuns = " {2,}";
inline constexpr std::string_view kEdgeSpaces = R"(\A +| +\z)";

/// Ids and flags that hold where the metadata says nothing.
struct SpecialDefaults {
  int32_t bos = -1, eos = -1, unknown = -1;
  bool add_bos = false;
};

/// Metadata key of the ids that generation_config.json and config.json of a folder list as ends of
/// an answer. GGUF has no such list.
inline constexpr const char* kEndIdsKey = "generation.eos_token_ids";

/// Reads `tokenizer.ggml.*_token_id`, finds well-known ends of an answer by name and gives those
/// tokens the type that they should have had. If kEndIdsKey is there, these ids, EOS and those
/// found by name that stand in `tokenizer.chat_template` end an answer. Throws kFormat for a BOS,
/// EOS, EOT or EOM outside the vocabulary; other ids outside it are dropped.
Tokenizer::Special resolve_special(const Metadata& metadata, const SpecialDefaults& defaults,
                                   Vocabulary& vocabulary);

/// What stands between two texts beside the EOS of the first: tokenizer.ggml.seperator_token_id (as
/// GGUF spells it; else `eos`) if tokenizer.ggml.add_sep_token says so; `otherwise`: where it says
/// nothing. One id or none; it may be outside the vocabulary.
std::vector<int32_t> separator_of(const Metadata& metadata, int64_t eos, bool otherwise);

/// Whether a token of this name is one that structures a prompt, even if a file types it otherwise:
/// the end of a turn, a mark of Harmony.
bool is_control_name(std::string_view name);

/// `text` without the marks of EncodeOptions::guard.
std::string without_guard(std::string_view text, std::string_view guard);

/// Where a family's special tokens take the spaces behind them: this one leaves them.
bool keeps_spaces_after(std::string_view token);

/// Finds control, user-defined and unknown tokens in text, leftmost first and the longest there.
class SpecialMatcher {
 public:
  struct Options {
    bool strip_after = false;       ///< spaces after a special token belong to it (Phi-3)
    bool spaces_are_marks = false;  ///< a run of U+2581 is the same token as that run of spaces
  };
  SpecialMatcher(const Vocabulary& vocabulary, const Options& options);

  /// Some user-defined token is a run of spaces, and none has U+2581 in it (Gemma).
  bool has_space_runs() const { return has_space_runs_; }

  struct Match {
    int32_t id = -1;  ///< -1: none
    size_t begin = 0, end = 0;
  };
  /// The first match at or after `from`; control and unknown tokens only if `parse_special`.
  Match next(std::string_view text, size_t from, bool parse_special) const;

 private:
  struct Entry {
    std::string_view text;  // of the vocabulary or marks_
    int32_t id;
    bool control, strip_after;
  };
  const Entry* longest_at(std::string_view rest, bool parse_special) const;

  bool has_space_runs_ = false;
  std::deque<std::string> marks_;          // texts that are not in the vocabulary
  std::vector<Entry> entries_;             // sorted by text
  std::array<uint32_t, 257> first_{};      // entries by first byte: [first_[b], first_[b + 1])
  std::array<uint8_t, 256> user_first_{};  // some user-defined token begins so
};

}  // namespace veery
