// metrics_text.h: metrics in the text format of Prometheus.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "schedule/latencies.h"

namespace veery::serve {

/// Writes metric families one after another (version 0.0.4 of the format).
class MetricsText {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  /// Begins a family, to which the following samples belong. `type`: "counter", "gauge" or
  /// "histogram". A family without samples is left out.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(Labels labels, double value);
  void sample(Labels labels, const LatencyHistogram& histogram);
  std::string take() { return std::move(text_); }

 private:
  void line(std::string_view suffix, Labels labels, std::string_view bound, double value);

  std::string text_, head_, name_;
};

}  // namespace veery::serve
