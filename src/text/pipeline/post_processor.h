// post_processor.h: reads the special tokens around encoded text, and its greatest length.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/sequence_template.h"

namespace veery {

/// Special tokens and the texts between them: what a `post_processor` makes of one text or two.
class PostProcessor {
 public:
  PostProcessor() = default;  ///< nothing is added
  explicit PostProcessor(SequenceTemplate sequence) : sequence_(std::move(sequence)) {}
  /// From the `post_processor` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming a type that is not known.
  explicit PostProcessor(const Json& json);

  const SequenceTemplate& sequence() const { return sequence_; }
  std::vector<int32_t> before() const;  ///< the special tokens before one text
  std::vector<int32_t> after() const;   ///< and behind it

 private:
  void read(const Json& json);
  void take(SequenceTemplate sequence);

  SequenceTemplate sequence_;
};

/// Returns whether texts lose their beginning when they are cut, by the `truncation` of a
/// tokenizer.json (null: they do not). Its length is no bound: transformers resets it too. Throws
/// kFormat for values that the tokenizers library refuses.
bool read_keeps_end(const Json& json);

}  // namespace veery
