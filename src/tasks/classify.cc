#include "tasks/classify.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "chat/chat.h"
#include "chat/conversation.h"
#include "chat/reasoning.h"

namespace veery {
namespace {

constexpr std::string_view kText = "{text}", kLabels = "{labels}";
constexpr std::string_view kForm =
    "Classify the text. Answer with one of these labels alone: {labels}.\n\nText: {text}";
constexpr std::string_view kRawForm = "Text: {text}\nOne of these labels: {labels}.\nLabel:";

std::string filled(std::string_view form, std::string_view text, std::string_view labels) {
  std::string result;
  while (!form.empty()) {
    if (form.starts_with(kText)) {
      result += text;
      form.remove_prefix(kText.size());
    } else if (form.starts_with(kLabels)) {
      result += labels;
      form.remove_prefix(kLabels.size());
    } else {
      result += form.front();
      form.remove_prefix(1);
    }
  }
  return result;
}

/// A request in flight: some of the labels of one text.
struct Asked {
  size_t text = 0, first = 0;
  std::shared_ptr<Ticket> ticket;
};

void take(const Asked& asked, LabelScores& scores) {
  AnswerPart piece;
  while (asked.ticket->next(piece)) {
  }
  std::ranges::copy(asked.ticket->choice_scores(),
                    scores.logprobs.begin() + static_cast<std::ptrdiff_t>(asked.first));
  if (asked.first > 0) return;
  scores.prompt_tokens = asked.ticket->result().prompt_tokens;
  scores.reused_tokens = asked.ticket->result().reused_tokens;
}

GenerateRequest request_of(const LabelTokens& text, size_t first, size_t last) {
  GenerateRequest request{text.prompt, {}};
  request.options.max_tokens = 0;
  request.choices.assign(text.labels.begin() + static_cast<std::ptrdiff_t>(first),
                         text.labels.begin() + static_cast<std::ptrdiff_t>(last));
  return request;
}

}  // namespace

LabelTokens encode_labels(const Tokenizer& tokenizer, std::string_view prompt,
                          std::span<const std::string> labels, std::string_view guard) {
  const std::vector<int32_t> alone = encode_prompt(tokenizer, prompt, nullptr, guard);
  std::vector<std::vector<int32_t>> all;
  size_t shared = alone.size();
  for (const std::string& label : labels) {
    all.push_back(encode_prompt(tokenizer, std::string(prompt) + label, nullptr, guard));
    const std::vector<int32_t>& ids = all.back();
    const auto end = std::mismatch(ids.begin(), ids.end(), alone.begin(), alone.end()).first;
    shared = std::min(shared, static_cast<size_t>(end - ids.begin()));
  }
  if (shared == 0)
    throw Error(ErrorKind::kInput,
                "prompt: found no token before the labels, expected one or more");
  const auto border = static_cast<std::ptrdiff_t>(shared);
  LabelTokens result{{alone.begin(), alone.begin() + border}, {}};
  for (size_t i = 0; i < labels.size(); ++i) {
    result.labels.emplace_back(all[i].begin() + border, all[i].end());
    if (result.labels.back().empty())
      throw Error(ErrorKind::kInput, "labels[{}]: found no tokens that differ from the prompt", i);
  }
  return result;
}

LabelPrompt::LabelPrompt(const Model& model, std::vector<std::string> labels,
                         const LabelPromptOptions& options)
    : model_(model), labels_(std::move(labels)), options_(options) {
  if (labels_.size() < 2)
    throw Error(ErrorKind::kInput, "labels: found {}, expected two or more", labels_.size());
  std::vector<std::string> sorted = labels_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end())
    throw Error(ErrorKind::kInput, "labels: found '{}' twice, expected distinct labels", *twice);
  if (sorted.front().empty()) throw Error(ErrorKind::kInput, "labels: found an empty label");
  options_.raw = options_.raw || model.chat_template() == nullptr;
  if (options_.form.empty()) options_.form = options_.raw ? kRawForm : kForm;
  if (options_.form.find(kText) == std::string::npos)
    throw Error(ErrorKind::kInput, "the prompt lacks {}, which is replaced by the text", kText);
}

LabelTokens LabelPrompt::encode(std::string_view text) const {
  std::string names;
  for (const std::string& label : labels_) names += (names.empty() ? "" : ", ") + label;
  std::string prompt = filled(options_.form, text, names);
  if (!options_.raw) {
    Conversation asked{.messages = Json::array({{{"role", "user"}, {"content", prompt}}})};
    set_thinking(asked.variables, false);
    const RenderedConversation chat = render_conversation(model_, asked);
    return encode_labels(model_.tokenizer(), chat.guarded_text, labels_, chat.guard);
  }
  // Words begin with a space in most vocabularies.
  if (prompt.ends_with(' ') || prompt.ends_with('\n'))
    return encode_labels(model_.tokenizer(), prompt, labels_);
  std::vector<std::string> spaced;
  for (const std::string& label : labels_) spaced.push_back(' ' + label);
  return encode_labels(model_.tokenizer(), prompt, spaced);
}

std::vector<double> LabelScores::probabilities(bool mean) const {
  std::vector<double> shares = logprobs;
  if (mean)
    for (size_t i = 0; i < shares.size(); ++i) shares[i] /= static_cast<double>(tokens[i]);
  const double best = *std::ranges::max_element(shares);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share - best);
  for (double& share : shares) share /= sum;
  return shares;
}

// With fewer texts than slots, the labels of a text are divided among several requests.
std::vector<LabelScores> score_labels(const Submit& submit, int32_t slots,
                                      std::span<const LabelTokens> texts,
                                      const std::function<void(size_t, size_t)>& progress) {
  std::vector<LabelScores> scores(texts.size());
  std::deque<Asked> asked;
  const auto take_first = [&] {
    const Asked first = std::move(asked.front());
    asked.pop_front();
    take(first, scores[first.text]);
    if (progress) progress(first.text + 1, texts.size());
  };
  try {
    for (size_t t = 0; t < texts.size(); ++t) {
      const size_t labels = texts[t].labels.size();
      scores[t].logprobs.resize(labels);
      for (const auto& label : texts[t].labels) scores[t].tokens.push_back(label.size());
      const size_t requests =
          std::clamp<size_t>(static_cast<size_t>(slots) / texts.size(), 1, labels);
      for (size_t r = 0; r < requests; ++r) {
        const size_t first = labels * r / requests, last = labels * (r + 1) / requests;
        asked.push_back({t, first, submit(request_of(texts[t], first, last))});
        if (asked.size() >= 2 * static_cast<size_t>(slots)) take_first();
      }
    }
    while (!asked.empty()) take_first();
  } catch (...) {
    for (const Asked& one : asked) one.ticket->cancel();
    throw;
  }
  return scores;
}

}  // namespace veery
