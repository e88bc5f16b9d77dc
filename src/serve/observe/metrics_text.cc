#include "serve/observe/metrics_text.h"

#include <fmt/format.h>

namespace veery::serve {
namespace {

std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : text) switch (c) {
      case '\n': value += "\\n"; break;
      case '"': value += "\\\""; break;
      case '\\': value += "\\\\"; break;
      default: value += c;
    }
  return value;
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = fmt::format("veery_{}", name);
  head_ = fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name_, type, help);
}

void MetricsText::line(std::string_view suffix, Labels labels, std::string_view bound,
                       double value) {
  text_ += std::exchange(head_, {});
  text_ += name_;
  text_ += suffix;
  std::string list;
  for (const auto& [name, text] : labels)
    list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", name, label_value(text));
  if (!bound.empty()) list += fmt::format("{}le=\"{}\"", list.empty() ? "" : ",", bound);
  text_ += list.empty() ? fmt::format(" {}\n", value) : fmt::format("{{{}}} {}\n", list, value);
}

void MetricsText::sample(Labels labels, double value) { line("", labels, {}, value); }

void MetricsText::sample(Labels labels, const LatencyHistogram& histogram) {
  int64_t below = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    below += histogram.counts[i];
    const bool last = i == LatencyHistogram::kBounds.size();
    line("_bucket", labels, last ? "+Inf" : fmt::format("{}", LatencyHistogram::kBounds[i]),
         static_cast<double>(below));
  }
  line("_sum", labels, {}, histogram.sum);
  line("_count", labels, {}, static_cast<double>(below));
}

}  // namespace veery::serve
