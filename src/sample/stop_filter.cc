#include "sample/stop_filter.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace veery {
namespace {

// Returns the length of the longest suffix of `text` that is a proper prefix of `stop`.
size_t partial_match(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && !text.ends_with(stop.substr(0, length))) --length;
  return length;
}

}  // namespace

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) throw Error(ErrorKind::kInput, "a stop string is empty");
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  // The stop string that ends first wins, so that the result does not depend on how the text is
  // split.
  size_t begin = std::string::npos, end = std::string::npos;
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    keep = std::max(keep, partial_match(held_, stop));
    const size_t found = held_.find(stop);
    if (found == std::string::npos || found + stop.size() > end) continue;
    begin = found + stop.size() < end ? found : std::min(begin, found);
    end = found + stop.size();
  }
  stopped_ = end != std::string::npos;
  if (stopped_) stop_ = held_.substr(begin, end - begin);
  std::string out = held_.substr(0, stopped_ ? begin : held_.size() - keep);
  held_ = stopped_ ? std::string() : held_.substr(out.size());
  return out;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace veery
