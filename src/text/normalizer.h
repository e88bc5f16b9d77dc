// normalizer.h: the changes that a tokenizer makes to text before it looks for words.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace veery {

class Normalizer {
 public:
  using Step = std::function<void(std::string&)>;

  Normalizer() = default;  ///< changes nothing
  /// From the `normalizer` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming a type that is not known.
  explicit Normalizer(const Json& json);

  void add(Step step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  std::string operator()(std::string_view text) const;

 private:
  void read(const Json& json);

  std::vector<Step> steps_;
};

/// How BERT cleans text: controls vanish, spaces become ' ', ideographs stand alone, accents and
/// case go.
struct BertCleaning {
  bool clean_text = true, ideographs = true, strip_accents = true, lowercase = true;
};
Normalizer::Step bert_cleaning(const BertCleaning& options);

/// Every `from` becomes `to`.
Normalizer::Step replace_text(std::string from, std::string to);

}  // namespace veery
