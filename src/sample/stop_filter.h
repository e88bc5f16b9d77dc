// stop_filter.h: ends a stream of text before a stop string, wherever its pieces are cut.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// Holds back what may be the beginning of a stop string until it is known whether it is.
class StopFilter {
 public:
  /// Throws kInput if a stop string is empty.
  explicit StopFilter(std::vector<std::string> stops);

  /// The text that can be shown now. Once stopped(), nothing more comes.
  std::string push(std::string_view text);
  /// What was held back, at the end of the text.
  std::string finish();
  /// A stop string was seen; it and all that follows is dropped. The one that is complete first
  /// counts, of those that end together the longest.
  bool stopped() const { return stopped_; }
  /// The stop string that was seen; empty: none.
  const std::string& stop() const { return stop_; }

 private:
  std::vector<std::string> stops_;
  std::string held_, stop_;
  bool stopped_ = false;
};

}  // namespace veery
