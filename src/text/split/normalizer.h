// normalizer.h: the changes that a tokenizer makes to text before it looks for words.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/common/growth.h"

namespace veery {

class Normalizer {
 public:
  /// Changes the text. A step that can make it much longer asks `growth` while it does so, under
  /// the name given.
  using Step = std::function<void(std::string& text, std::string_view name, const Growth& growth)>;

  Normalizer() = default;  ///< changes nothing
  /// From the `normalizer` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming a type that is not known, kLimit if there are more than kMostSteps.
  /// `kind` and `number`: how messages name it, or its first step.
  explicit Normalizer(const Json& json, std::string_view kind = "normalizer", size_t number = 0);

  void add(std::string_view type, Step step);
  bool empty() const { return steps_.empty(); }
  /// Throws kLimit, naming the step, where the text becomes longer than `growth` allows, to which
  /// its length is added.
  std::string operator()(std::string_view text, Growth& growth) const;

 private:
  void read(const Json& json);

  struct Named {
    std::string name;
    Step run;
  };
  std::string kind_ = "normalizer";
  size_t number_ = 0;
  std::vector<Named> steps_;
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
