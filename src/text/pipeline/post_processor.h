// post_processor.h: the special tokens around encoded text, and its greatest length.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"

namespace veery {

/// Special tokens and the text between them: what a `post_processor` makes of one text.
class PostProcessor {
 public:
  PostProcessor() = default;  ///< nothing is added
  PostProcessor(std::vector<int32_t> before, std::vector<int32_t> after);
  /// From the `post_processor` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming a type that is not known.
  explicit PostProcessor(const Json& json);

  std::vector<int32_t> apply(std::vector<int32_t> ids) const;
  size_t added() const;  ///< how many special tokens

  const std::vector<int32_t>& before() const { return before_; }
  const std::vector<int32_t>& after() const { return after_; }

 private:
  void read(const Json& json);
  void read_template(const Json& json);
  void wrap(const std::vector<int32_t>& before, const std::vector<int32_t>& after);

  std::vector<int32_t> before_, after_;
};

/// The `truncation` of a tokenizer.json.
struct Truncation {
  size_t longest = SIZE_MAX;  ///< ids, special tokens included
  bool keeps_end = false;     ///< else the beginning

  static std::optional<Truncation> read(const Json& json);
  void apply(std::vector<int32_t>& ids, size_t added) const;
};

}  // namespace veery
