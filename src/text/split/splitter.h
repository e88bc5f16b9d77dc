// splitter.h: the `pre_tokenizer` of a tokenizer.json: splits text into words.
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

/// A part of the text.
struct Piece {
  std::string_view text;
  bool first = false;  ///< at the beginning of the whole text
};

/// Reference to a function that consumes pieces. Cheap to pass; must not outlive the function.
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
  /// Working memory. Not thread-safe.
  struct Context {
    RegexScratch regex;
    bool needs_substitutes = false;  ///< result of needs_substitutes() for the whole text
    Growth growth;                   ///< bytes that the steps write
  };
  static constexpr size_t kMostSteps = 100;  ///< limited, since steps call each other

  /// Splits a piece and passes its parts to the sink.
  using Step = std::function<void(const Piece&, Context&, const PieceSink&)>;

  Splitter() = default;  ///< the whole text is one word
  /// Reads the `pre_tokenizer` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming an unknown type, and kLimit for more than kMostSteps steps.
  explicit Splitter(const Json& json);

  void add(Step step);

  /// Whether the last step is "ByteLevel": the vocabulary uses the byte alphabet, and words are
  /// passed as plain bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }
  /// Passes words in the byte alphabet instead of plain bytes.
  void write_in_alphabet();

  /// Calls `sink` with the words of `piece` in order. Throws kLimit if a pattern takes too many
  /// steps or the words become longer than context.growth permits.
  void split(const Piece& piece, Context& context, const PieceSink& sink) const {
    run(0, piece, context, sink);
  }

 private:
  void read(const Json& json, bool last);
  void run(size_t step, const Piece& piece, Context& context, const PieceSink& sink) const;

  std::vector<Step> steps_;
  bool ends_in_bytes_ = false;
};

/// How matches of a pattern are treated.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Splitter::Step split_at(Regex pattern, SplitBehavior behavior, bool invert = false);
Splitter::Step split_at(bool (*matches)(char32_t), SplitBehavior behavior);

/// Returns a step that replaces spaces by `mark`, prepends a mark according to `scheme`, and splits
/// before marks if `cut`.
enum class PrependScheme { kNever, kFirst, kAlways };
Splitter::Step mark_spaces(std::string mark, PrependScheme scheme, bool cut);

}  // namespace veery
