// GET /metrics. Names after the prefix are those of vLLM and llama.cpp where these have the metric.
#include <array>

#include "serve/api/context.h"
#include "serve/observe/metrics_text.h"

namespace veery::serve {
namespace {

// A loaded model with a scheduler.
struct Scheduled {
  std::string id;
  SchedulerCounts counts;
};

struct CountFamily {
  const char *name, *type, *help;
  double (*value)(const SchedulerCounts& counts);
};

double number(int64_t count) { return static_cast<double>(count); }

using Counts = const SchedulerCounts&;
constexpr CountFamily kCounts[] = {
    {"num_requests_running", "gauge", "Requests whose answers are being generated.",
     [](Counts c) { return number(c.running); }},
    {"num_requests_waiting", "gauge", "Requests that wait for a slot.",
     [](Counts c) { return number(c.waiting); }},
    {"kv_cache_usage_ratio", "gauge",
     "Share of the KV cache in use by requests and cached prefixes, 0 to 1.",
     [](Counts c) { return c.cache_use; }},
    {"kv_cache_pages_used", "gauge", "Pages of 256 positions in use.",
     [](Counts c) { return number(c.used_pages); }},
    {"prefix_cache_entries", "gauge", "Cached pages that no request uses.",
     [](Counts c) { return number(c.kept); }},
    {"prompt_tokens_total", "counter", "Prompt tokens computed, without cached ones.",
     [](Counts c) { return number(c.prompt_tokens); }},
    {"generation_tokens_total", "counter", "Generated tokens.",
     [](Counts c) { return number(c.made_tokens); }},
    {"prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.",
     [](Counts c) { return number(c.prompt_tokens + c.reused_tokens); }},
    {"prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",
     [](Counts c) { return number(c.reused_tokens); }},
    {"prefix_cache_disk_hits_total", "counter", "Files read by the prefix cache on disk.",
     [](Counts c) { return number(c.disk.hits); }},
    {"prefix_cache_disk_misses_total", "counter",
     "Files of the prefix cache on disk that were damaged or gone.",
     [](Counts c) { return number(c.disk.misses); }},
    {"prefix_cache_disk_writes_total", "counter", "Files written by the prefix cache on disk.",
     [](Counts c) { return number(c.disk.written); }},
    {"prefix_cache_disk_failures_total", "counter",
     "Files that the prefix cache could not write to disk.",
     [](Counts c) { return number(c.disk.failed); }},
    {"prefix_cache_disk_tokens_total", "counter", "Prompt tokens restored from disk.",
     [](Counts c) { return number(c.disk.restored_tokens); }},
    {"spec_decode_num_draft_tokens_total", "counter", "Draft tokens that were verified.",
     [](Counts c) { return number(c.drafted_tokens); }},
    {"spec_decode_num_accepted_tokens_total", "counter", "Draft tokens that were accepted.",
     [](Counts c) { return number(c.accepted_tokens); }},
    {"num_preemptions_total", "counter",
     "Times that a running request was put back into the queue.",
     [](Counts c) { return number(c.preempted); }},
    {"n_decode_total", "counter", "Runs of the model.", [](Counts c) { return number(c.steps); }},
    {"busy_seconds_total", "counter", "Seconds in which the model ran.",
     [](Counts c) { return c.busy_seconds; }},
};

struct LatencyFamily {
  const char *name, *help;
  LatencyHistogram Latencies::*histogram;
};
constexpr LatencyFamily kLatencies[] = {
    {"request_queue_time_seconds", "Time from arrival to the begin of the prefill.",
     &Latencies::queue},
    {"time_to_first_token_seconds", "Time from arrival to the first generated token.",
     &Latencies::first_token},
    {"inter_token_latency_seconds", "Time between two generated tokens.",
     &Latencies::between_tokens},
    {"e2e_request_latency_seconds", "Time from arrival to the end of the answer.",
     &Latencies::whole},
};

void add_requests(const std::vector<Scheduled>& models, MetricsText& text) {
  for (const CountFamily& family : kCounts) {
    text.family(family.name, family.type, family.help);
    for (const Scheduled& model : models)
      text.sample({{"model_name", model.id}}, family.value(model.counts));
  }
  text.family("request_success_total", "counter", "Requests that are over, by reason.");
  for (const auto& [id, counts] : models)
    for (const auto& [reason, count] : {std::pair{"stop", counts.stopped},
                                        {"length", counts.cut},
                                        {"abort", counts.cancelled},
                                        {"error", counts.failed}})
      text.sample({{"model_name", id}, {"finished_reason", reason}}, number(count));
  for (const LatencyFamily& family : kLatencies) {
    text.family(family.name, "histogram", family.help);
    for (const Scheduled& model : models)
      text.sample({{"model_name", model.id}}, model.counts.latencies.*family.histogram);
  }
}

void add_models(const std::vector<Models::View>& views, MetricsText& text) {
  const auto add = [&](const char* name, const char* type, const char* help, auto value_of) {
    text.family(name, type, help);
    for (const Models::View& view : views)
      text.sample({{"model_name", view.card->id}}, static_cast<double>(value_of(view)));
  };
  using View = const Models::View&;
  add("model_loaded", "gauge", "Whether the model is loaded.",
      [](View view) { return view.model ? 1 : 0; });
  add("model_bytes", "gauge", "Memory that the model takes when it is loaded.",
      [](View view) { return view.bytes; });
  add("model_loads_total", "counter", "How often the model was loaded.",
      [](View view) { return view.loads; });
  text.family("device_memory_bytes", "gauge", "Memory of the device that the model is on.");
  for (const Models::View& view : views) {
    const auto memory = view.model ? view.model->model().device_memory() : std::nullopt;
    if (!memory) continue;
    for (const auto& [state, bytes] :
         {std::pair{"active", memory->active}, {"peak", memory->peak}, {"cached", memory->cached}})
      text.sample({{"model_name", view.card->id}, {"state", state}}, static_cast<double>(bytes));
  }
}

void add_http(Context& context, MetricsText& text) {
  text.family("http_requests_total", "counter",
              "HTTP requests by endpoint and status; 499: the client left.");
  for (const auto& [key, count] : context.http.all()) {
    const auto& [route, method, status] = key;
    const std::string code = std::to_string(status);
    text.sample({{"handler", route}, {"method", method}, {"status", code}}, number(count));
  }
  if (context.log == nullptr) return;
  text.family("log_lines_lost_total", "counter", "Lines of the log that could not be written.");
  text.sample({}, number(context.log->lost()));
}

}  // namespace

void metrics(Context& context, const HttpRequest&, Reply& reply) {
  const std::vector<Models::View> views = context.models.all();
  std::vector<Scheduled> scheduled;
  for (const Models::View& view : views)
    if (view.model && view.model->scheduler() != nullptr)
      scheduled.push_back({view.card->id, view.model->scheduler()->counts()});
  MetricsText text;
  add_requests(scheduled, text);
  add_models(views, text);
  add_http(context, text);
  reply.send(200, "text/plain; version=0.0.4; charset=utf-8", text.take());
}

}  // namespace veery::serve
