// POST /v1/classify: scores labels for texts.
#include "tasks/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/fields.h"
#include "serve/api/prompt.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr size_t kMostTexts = 2048, kMostLabels = 256;

std::vector<std::string> read_list(const Fields& fields, const char* name, size_t least,
                                   size_t most) {
  std::vector<std::string> texts = fields.texts(name);
  if (texts.size() < least || texts.size() > most)
    fields.fail(name, fmt::format("a list of {} to {} texts", least, most));
  return texts;
}

Json result_of(const LabelPrompt& prompt, const LabelScores& scores, bool mean, size_t index) {
  const std::vector<double> shares = scores.probabilities(mean);
  const auto best = static_cast<size_t>(std::ranges::max_element(shares) - shares.begin());
  return {{"index", index},
          {"label", prompt.labels()[best]},
          {"probs", shares},
          {"logprobs", scores.logprobs},
          {"num_classes", shares.size()}};
}

}  // namespace

void classify(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, classify_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  Scheduler& scheduler = require_scheduler(model);
  RequestRecord& record = reply.record();
  record.model = model.id();
  const std::vector<std::string> texts = read_list(fields, "input", 1, kMostTexts);
  const LabelPrompt prompt(
      model.model(), read_list(fields, "labels", 2, kMostLabels),
      {.form = fields.text("form").value_or(""), .raw = fields.flag("raw").value_or(false)});
  const bool mean = fields.flag("mean").value_or(false);
  std::vector<LabelTokens> encoded;
  for (const std::string& text : texts) encoded.push_back(prompt.encode(text));
  const std::vector<LabelScores> all = score_labels(
      [&](GenerateRequest request) {
        set_user(request, record);
        return scheduler.submit(std::move(request));
      },
      scheduler.slots(), encoded);
  Json data = Json::array();
  size_t tokens = 0, reused = 0;
  for (const LabelScores& scores : all) {
    data.push_back(result_of(prompt, scores, mean, data.size()));
    tokens += scores.prompt_tokens + scores.reused_tokens;
    reused += scores.reused_tokens;
  }
  record.prompt_tokens = static_cast<int64_t>(tokens);
  record.cached_tokens = static_cast<int64_t>(reused);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  reply.send(200, kJson,
             dump_json({{"id", random_id("classify-")},
                        {"object", "list"},
                        {"created", std::chrono::duration_cast<std::chrono::seconds>(now).count()},
                        {"model", model.id()},
                        {"data", data},
                        {"usage",
                         {{"prompt_tokens", tokens},
                          {"total_tokens", tokens},
                          {"prompt_tokens_details", {{"cached_tokens", reused}}}}}}));
}

}  // namespace veery::serve
