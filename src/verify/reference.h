// reference.h: recorded outputs of a model, and how far others are from them.
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

/// What follows one token of a text: some of the logits (or of their logarithms as probabilities),
/// the logarithm of the sum of all of their exponentials, the largest one.
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
  std::vector<int32_t> greedy;  ///< how it goes on, most probable token after token
};

/// The same texts recorded of the same weights in one type.
struct ReferenceSet {
  std::string name;
  std::vector<ReferenceText> texts;
};

/// JSON or safetensors; docs/verify.md has both forms. Throws kNotFound, kIo, or kFormat naming
/// what was found and what was expected.
std::vector<ReferenceSet> read_reference(const std::string& path);
/// The same on bytes in memory; `name` stands for the path in messages.
std::vector<ReferenceSet> parse_reference(std::span<const std::byte> bytes,
                                          const std::string& name);

/// Writes what `model` gives for a few texts: plain English (any ids without a tokenizer), a short
/// one, one that is longer than the sliding window. Throws as file_to_write() does, kIo.
void write_reference(Model& model, const std::string& path, const OutputRules& rules = {});

/// A text with the ids that a tokenizer made of it.
struct VocabularyText {
  std::string text;
  std::vector<int32_t> ids;
};

/// The tokenizer's part of a reference.
struct ReferenceVocabulary {
  std::vector<VocabularyText> texts;
  std::optional<int32_t> eos;       ///< absent: not recorded
  std::vector<int32_t> ends;        ///< ids that end an answer
  std::vector<std::string> blocks;  ///< hashes of the tokens, some at a time
};

/// All that read_reference() steps over: "text" beside ids, and the object "tokenizer". Empty for
/// safetensors. Throws as read_reference().
ReferenceVocabulary read_reference_vocabulary(const std::string& path);
ReferenceVocabulary parse_reference_vocabulary(const Json& json);

/// The object "tokenizer" of a reference: texts in several scripts with their ids, EOS and the
/// other ends of an answer, hashes of all tokens.
Json recorded_vocabulary(const Tokenizer& tokenizer);

/// How the ids of a reference are changed before they are run.
enum class IdEdit : uint8_t { kNone, kBosAdded, kFirstDropped };

/// How far a model is from a reference.
struct Difference {
  double largest = 0;  ///< relative to the largest recorded value of its text
  double rms = 0;      ///< of the same
  int64_t values = 0, bests = 0, other_bests = 0;
  /// Where it is largest.
  size_t text = 0;
  int32_t position = 0, id = -1;  ///< -1: the sum
  float found = 0, expected = 0;
  int32_t first = INT32_MAX;  ///< the first position of any text that is clearly different
  std::string set;
};

/// The set that `model` is nearest to, over texts of up to `most` ids together (at least one).
/// Throws kInput if ids are outside of its vocabulary, kLimit if a text is longer than its context.
Difference compare(Model& model, std::span<const ReferenceSet> sets, size_t most = SIZE_MAX,
                   IdEdit edit = IdEdit::kNone);

/// Where the recorded texts go on otherwise than `model` would, near-ties aside, within some
/// hundred tokens of all texts together: "text 0, token 5: id 7, not 9"; empty: nowhere.
std::string other_greedy(Model& model, const ReferenceSet& set);

}  // namespace veery
