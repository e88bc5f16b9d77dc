// post_processor.h: reads `post_processor` and `truncation` of a tokenizer.json.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/sequence_template.h"

namespace veery {

/// The templates of special tokens around one text and a pair of texts.
class PostProcessor {
 public:
  PostProcessor() = default;  ///< adds nothing
  explicit PostProcessor(SequenceTemplate sequence) : sequence_(std::move(sequence)) {}
  /// Reads the `post_processor` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// and kUnsupported naming an unknown type.
  explicit PostProcessor(const Json& json);

  const SequenceTemplate& sequence() const { return sequence_; }
  std::vector<int32_t> before() const;  ///< special tokens before a single text
  std::vector<int32_t> after() const;   ///< special tokens after a single text

 private:
  void read(const Json& json);
  void take(SequenceTemplate sequence);

  SequenceTemplate sequence_;
};

/// Returns whether truncation removes the beginning of texts, from `truncation` of a tokenizer.json
/// (null: no). Its length is not used as a limit; transformers resets it too. Throws kFormat for
/// values that the tokenizers library rejects.
bool read_keeps_end(const Json& json);

}  // namespace veery
