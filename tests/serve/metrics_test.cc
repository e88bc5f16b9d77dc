// The text format of Prometheus, and request counts with a bounded number of labels.
#include <gtest/gtest.h>

#include "serve/observe/http_counts.h"
#include "serve/observe/metrics_text.h"

namespace veery::serve {
namespace {

TEST(Metrics, FamiliesHaveHelpTypeAndSamples) {
  MetricsText text;
  text.family("empty", "gauge", "Nothing.");
  text.family("things_total", "counter", "Things.");
  text.sample({{"model_name", "a\"b\\c\nd"}, {"state", "on"}}, 3);
  text.sample({}, 0.5);
  EXPECT_EQ(text.take(),
            "# HELP veery_things_total Things.\n# TYPE veery_things_total counter\n"
            "veery_things_total{model_name=\"a\\\"b\\\\c\\nd\",state=\"on\"} 3\n"
            "veery_things_total 0.5\n");
}

TEST(Metrics, BucketsOfHistogramsAddUp) {
  LatencyHistogram histogram;
  histogram.add(0.002, 2);
  histogram.add(0.7);
  histogram.add(9999);
  MetricsText text;
  text.family("t_seconds", "histogram", "Times.");
  text.sample({{"model_name", "m"}}, histogram);
  const std::string all = text.take();
  for (const char* line : {"veery_t_seconds_bucket{model_name=\"m\",le=\"0.001\"} 0\n",
                           "veery_t_seconds_bucket{model_name=\"m\",le=\"0.0025\"} 2\n",
                           "veery_t_seconds_bucket{model_name=\"m\",le=\"1\"} 3\n",
                           "veery_t_seconds_bucket{model_name=\"m\",le=\"2500\"} 3\n",
                           "veery_t_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 4\n",
                           "veery_t_seconds_sum{model_name=\"m\"} 9999.704\n",
                           "veery_t_seconds_count{model_name=\"m\"} 4\n"})
    EXPECT_NE(all.find(line), std::string::npos) << line << all;
}

TEST(Metrics, ClientsMakeUpNoLabels) {
  HttpCounts counts;
  for (int i = 0; i < 1000; ++i) {
    RequestRecord record;
    record.method = "M" + std::to_string(i);
    record.path = "/" + std::to_string(i);
    record.status = 404;
    counts.count(record);
  }
  RequestRecord record;
  record.method = "GET";
  record.route = "/v1/models/*";
  record.status = 200;
  counts.count(record);
  const auto all = counts.all();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all.at({"other", "other", 404}), 1000);
  EXPECT_EQ(all.at({"/v1/models/*", "GET", 200}), 1);
}

}  // namespace
}  // namespace veery::serve
