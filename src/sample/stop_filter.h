// stop_filter.h: truncates streamed text before a stop string that may span several pieces.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// Withholds text that may be the beginning of a stop string until that is decided.
class StopFilter {
 public:
  /// Throws kInput if a stop string is empty.
  explicit StopFilter(std::vector<std::string> stops);

  /// Returns the text that can be emitted now; nothing after stopped().
  std::string push(std::string_view text);
  /// Returns the withheld text at the end of the stream.
  std::string finish();
  /// Returns whether a stop string was found; it and all text after it are dropped. The stop string
  /// that ends first wins; among those that end at the same character, the longest.
  bool stopped() const { return stopped_; }
  /// The stop string that was found, or empty.
  const std::string& stop() const { return stop_; }

 private:
  std::vector<std::string> stops_;
  std::string held_, stop_;
  bool stopped_ = false;
};

}  // namespace veery
