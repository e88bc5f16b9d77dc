// splitter.h: cuts text into the words that a model looks at, as the `pre_tokenizer` of a
// tokenizer.json says.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/common/growth.h"
#include "text/common/regex.h"

namespace veery {

/// A part of the text on its way to the model.
struct Piece {
  std::string_view text;
  bool first = false;  ///< it begins where the whole text begins
};

/// Refers to a function that takes pieces; cheap to pass, must not outlive it.
class PieceSink {
 public:
  template <typename Function>
  PieceSink(const Function& function)  // NOLINT: converts on purpose
      : object_(&function), call_([](const void* object, const Piece& piece) {
          (*static_cast<const Function*>(object))(piece);
        }) {}
  void operator()(const Piece& piece) const {
    if (!piece.text.empty()) call_(object_, piece);
  }

 private:
  const void* object_;
  void (*call_)(const void*, const Piece&);
};

class Splitter {
 public:
  /// Working memory for one thread.
  struct Context {
    RegexScratch regex;
    bool needs_substitutes = false;  ///< as the function of that name, of the whole text
    Growth growth;                   ///< what the steps write anew
  };
  static constexpr size_t kMostSteps = 100;  ///< each is called inside the one before

  /// Passes the parts of a piece on.
  using Step = std::function<void(const Piece&, Context&, const PieceSink&)>;

  Splitter() = default;  ///< the text is one word
  /// From the `pre_tokenizer` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming a type that is not known, kLimit if there are more than kMostSteps of
  /// them.
  explicit Splitter(const Json& json);

  void add(Step step);

  /// The last step is "ByteLevel": the model's tokens are written in the byte alphabet, and words
  /// come as the bytes themselves.
  bool ends_in_bytes() const { return ends_in_bytes_; }
  /// The words come in the byte alphabet instead.
  void write_in_alphabet();

  /// Calls `sink` with the words of `piece` in order. Throws kLimit if a pattern needs too many
  /// steps, or the words together become longer than the context allows.
  void split(const Piece& piece, Context& context, const PieceSink& sink) const {
    run(0, piece, context, sink);
  }

 private:
  void read(const Json& json, bool last);
  void run(size_t step, const Piece& piece, Context& context, const PieceSink& sink) const;

  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

/// What becomes of the places where a pattern matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Splitter::Step split_at(Regex pattern, SplitBehavior behavior, bool invert = false);
Splitter::Step split_at(bool (*matches)(char32_t), SplitBehavior behavior);

/// Spaces become `mark`; one is put before the text where `scheme` says so; words begin at marks if
/// `cut`.
enum class PrependScheme { kNever, kFirst, kAlways };
Splitter::Step mark_spaces(std::string mark, PrependScheme scheme, bool cut);

}  // namespace veery
