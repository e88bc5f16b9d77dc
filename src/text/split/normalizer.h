// normalizer.h: the `normalizer` of a tokenizer: changes text before it is split into words.
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
  /// Changes the text. A step that can lengthen it considerably calls growth.check(name) while
  /// doing so.
  using Step = std::function<void(std::string& text, std::string_view name, const Growth& growth)>;

  Normalizer() = default;  ///< changes nothing
  /// Reads the `normalizer` of a tokenizer.json (null: none). `kind` and `number` name it and its
  /// first step in messages. Throws kFormat naming the key, kUnsupported naming an unknown type,
  /// and kLimit for more than kMostSteps steps.
  explicit Normalizer(const Json& json, std::string_view kind = "normalizer", size_t number = 0);

  void add(std::string_view type, Step step);
  bool empty() const { return steps_.empty(); }
  /// Returns the normalised text and adds its length to `growth`. Throws kLimit, naming the step,
  /// if it becomes longer than `growth` permits.
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

/// BERT's text cleaning: removes control characters, converts whitespace to ' ', separates
/// ideographs by spaces, strips accents and lower-cases.
struct BertCleaning {
  bool clean_text = true, ideographs = true, strip_accents = true, lowercase = true;
};
Normalizer::Step bert_cleaning(const BertCleaning& options);

/// Returns a step that replaces every `from` by `to`.
Normalizer::Step replace_text(std::string from, std::string to);

}  // namespace veery
