// reference.h: recorded outputs of a model, and comparison with them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/model.h"
#include "file/output/output_path.h"

namespace veery {

/// Recorded outputs after one token of a text: some logits (or log probabilities), the log-sum-exp
/// of all logits, and the id of the largest one.
struct ReferenceRow {
  int32_t position = 0;
  bool logprobs = false;
  std::vector<std::pair<int32_t, float>> values;  ///< id, logit
  std::optional<float> logsumexp;
  int32_t best = -1;  ///< -1: not recorded
};

struct ReferenceText {
  std::vector<int32_t> ids;
  std::vector<ReferenceRow> rows;
  std::vector<int32_t> greedy;  ///< greedy continuation
};

/// Texts recorded with weights of one type.
struct ReferenceSet {
  std::string name;
  std::vector<ReferenceText> texts;
};

/// Reads a reference from JSON or safetensors; docs/verify.md describes both formats. Throws
/// kNotFound, kIo, or kFormat naming what was found and what was expected.
std::vector<ReferenceSet> read_reference(const std::string& path);
/// Parses bytes in memory; `name` replaces the path in messages.
std::vector<ReferenceSet> parse_reference(std::span<const std::byte> bytes,
                                          const std::string& name);

/// Records the outputs of `model` for a few texts: plain English (arbitrary ids without a
/// tokenizer), a short text, and one longer than the sliding window. Throws as file_to_write()
/// does, kIo.
void write_reference(Model& model, const std::string& path, const OutputRules& rules = {});

/// A text and its token ids.
struct VocabularyText {
  std::string text;
  std::vector<int32_t> ids;
};

/// The tokenizer part of a reference.
struct ReferenceVocabulary {
  std::vector<VocabularyText> texts;
  std::optional<int32_t> eos;       ///< nullopt: not recorded
  std::vector<int32_t> ends;        ///< ids that end an answer
  std::vector<std::string> blocks;  ///< hashes of groups of tokens
};

/// Reads the parts that read_reference() skips: "text" next to ids, and the object "tokenizer".
/// Empty for safetensors. Throws as read_reference() does.
ReferenceVocabulary read_reference_vocabulary(const std::string& path);
ReferenceVocabulary parse_reference_vocabulary(const Json& json);

/// Returns the object "tokenizer" of a reference: texts in several scripts with their ids, EOS and
/// other end tokens, hashes of all tokens.
Json recorded_vocabulary(const Tokenizer& tokenizer);

/// A change of the reference's ids before running them.
enum class IdEdit : uint8_t { kNone, kBosAdded, kFirstDropped };

/// The difference between a model and a reference.
struct Difference {
  double largest = 0;  ///< relative to the largest recorded value of the text
  double rms = 0;      ///< root mean square of the same
  int64_t values = 0, bests = 0, other_bests = 0;
  /// Text, position and token id of the largest difference.
  size_t text = 0;
  int32_t position = 0, id = -1;  ///< -1: the log-sum-exp
  float found = 0, expected = 0;
  int32_t first = INT32_MAX;  ///< first position with a clear difference, over all texts
  std::string set;
};

/// Compares `model` with each set, over texts of up to `most` ids in total (at least one text), and
/// returns the difference from the closest set. Throws kInput if ids are outside the vocabulary,
/// kLimit if a text exceeds the context.
Difference compare(Model& model, std::span<const ReferenceSet> sets, size_t most = SIZE_MAX,
                   IdEdit edit = IdEdit::kNone);

/// Returns where greedy decoding deviates from the recorded continuations, ignoring near-ties,
/// within a limited number of tokens over all texts: "text 0, token 5: id 7, not 9"; empty if
/// nowhere.
std::string other_greedy(Model& model, const ReferenceSet& set);

}  // namespace veery
