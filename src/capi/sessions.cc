// Sessions, and labels scored. Both are requests to the scheduler, which finds what they begin with
// in its caches.
#include <cmath>

#include "capi/handles.h"
#include "engine/chat.h"

namespace veery::capi {
namespace {

constexpr float kForced = 1e6F;  // more than logits differ by

void check_idle(const SessionState& state) {
  if (state.busy)
    throw Busy("the session is being continued: read its answer to the end, or free it");
}

/// The tokens of prompt and label, for each label, and how many tokens all of them share with the
/// prompt. They are encoded together, as a text would be.
struct LabelTokens {
  std::vector<std::vector<int32_t>> all;
  size_t shared = 0;
};

LabelTokens encode_labels(const Tokenizer& tokenizer, const std::string& prompt,
                          const std::vector<std::string>& labels) {
  const std::vector<int32_t> alone = encode_prompt(tokenizer, prompt);
  LabelTokens result{{}, alone.size()};
  for (const std::string& label : labels) {
    std::vector<int32_t> ids = encode_prompt(tokenizer, prompt + label);
    const auto [end, other] = std::mismatch(ids.begin(), ids.end(), alone.begin(), alone.end());
    result.shared = std::min(result.shared, static_cast<size_t>(end - ids.begin()));
    result.all.push_back(std::move(ids));
  }
  if (result.shared == 0)
    throw Error(ErrorKind::kInput, "prompt: has no token that all labels stand behind");
  for (size_t i = 0; i < labels.size(); ++i)
    if (result.all[i].size() <= result.shared)
      throw Error(ErrorKind::kInput, "labels[{}]: has no tokens of its own", i);
  return result;
}

/// The logprob of the last of `ids` behind the others: it is what the answer is forced to be.
std::shared_ptr<Ticket> ask_for_last(LoadedModel& model, const std::vector<int32_t>& ids) {
  GenerateRequest request{{ids.begin(), ids.end() - 1}, {}};
  request.options.max_tokens = 1;
  request.options.ignore_eos = true;
  request.options.sampling.temperature = 0;
  request.options.sampling.bias = {{ids.back(), kForced}};
  request.logprobs = 0;
  return model.submit(std::move(request));
}

float logprob_of(Ticket& ticket) {
  AnswerPart piece;
  float found = 0;
  while (ticket.next(piece))
    for (const ScoredToken& score : piece.scores) found = score.token.logprob;
  return found;
}

std::vector<double> score_labels(LoadedModel& model, const LabelTokens& labels) {
  std::map<std::vector<int32_t>, float> scores;  // of the last token of each beginning
  for (const std::vector<int32_t>& ids : labels.all)
    for (size_t length = labels.shared + 1; length <= ids.size(); ++length)
      scores[{ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)}] = 0;
  std::vector<std::pair<float*, std::shared_ptr<Ticket>>> asked;
  size_t read = 0;
  const auto read_next = [&] {
    *asked[read].first = logprob_of(*asked[read].second);
    ++read;
  };
  try {
    for (auto& [ids, score] : scores) {
      asked.emplace_back(&score, ask_for_last(model, ids));
      if (asked.size() - read >= static_cast<size_t>(model.slots())) read_next();
    }
    while (read < asked.size()) read_next();
  } catch (...) {
    for (const auto& [score, ticket] : asked) ticket->cancel();
    throw;
  }
  std::vector<double> result;
  for (const std::vector<int32_t>& ids : labels.all) {
    double sum = 0;
    for (size_t length = labels.shared + 1; length <= ids.size(); ++length)
      sum += scores[{ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)}];
    result.push_back(sum);
  }
  return result;
}

}  // namespace
}  // namespace veery::capi

using namespace veery;
using namespace veery::capi;

veery_status veery_classify(veery_model* model, const char* prompt, size_t length,
                            const char* const* labels, size_t count, float* logprobs,
                            float* probabilities) {
  return guarded([&] {
    const std::shared_ptr<LoadedModel>& loaded = required(model, "model").loaded;
    loaded->require(Makes::kTexts);
    required(logprobs, "logprobs");
    if (count == 0) throw Error(ErrorKind::kInput, "labels: found none, expected one or more");
    const std::vector<std::string> texts = texts_of(labels, count, "labels");
    const Lease lease(loaded);
    const std::vector<double> scores =
        score_labels(*loaded, encode_labels(loaded->model().tokenizer(),
                                            std::string(text_of(prompt, length, "prompt")), texts));
    const double best = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - best);
    for (size_t i = 0; i < count; ++i) {
      logprobs[i] = static_cast<float>(scores[i]);
      if (probabilities != nullptr)
        probabilities[i] = static_cast<float>(std::exp(scores[i] - best) / sum);
    }
    return VEERY_OK;
  });
}

veery_status veery_session_create(veery_model* model, veery_session** session) {
  return guarded([&] {
    required(session, "session") = nullptr;
    const std::shared_ptr<LoadedModel>& loaded = required(model, "model").loaded;
    loaded->require(Makes::kTexts);
    auto state = std::make_shared<SessionState>();
    state->model = loaded;
    *session = new veery_session{std::move(state)};
    return VEERY_OK;
  });
}

void veery_session_free(veery_session* session) { delete session; }

veery_status veery_session_fork(const veery_session* session, veery_session** fork) {
  return guarded([&] {
    required(fork, "fork") = nullptr;
    SessionState& from = *required(session, "session").state;
    auto state = std::make_shared<SessionState>();
    const std::lock_guard lock(from.mutex);
    state->model = from.model;
    state->ids = from.ids;
    *fork = new veery_session{std::move(state)};
    return VEERY_OK;
  });
}

veery_status veery_session_append(veery_session* session, const char* text, size_t length) {
  return guarded([&] {
    SessionState& state = *required(session, "session").state;
    const std::string_view more = text_of(text, length, "text");
    const Tokenizer& tokenizer = state.model->model().tokenizer();
    const std::lock_guard lock(state.mutex);
    check_idle(state);
    const std::vector<int32_t> ids = state.ids.empty()
                                         ? encode_prompt(tokenizer, more)
                                         : tokenizer.encode(more, {.add_special = false});
    state.ids.insert(state.ids.end(), ids.begin(), ids.end());
    return VEERY_OK;
  });
}

veery_status veery_session_append_ids(veery_session* session, const int32_t* ids, size_t count) {
  return guarded([&] {
    SessionState& state = *required(session, "session").state;
    const std::vector<int32_t> more = ids_of(ids, count);
    check_ids(state.model->model(), more);
    const std::lock_guard lock(state.mutex);
    check_idle(state);
    state.ids.insert(state.ids.end(), more.begin(), more.end());
    return VEERY_OK;
  });
}

veery_status veery_session_cut(veery_session* session, size_t count) {
  return guarded([&] {
    SessionState& state = *required(session, "session").state;
    const std::lock_guard lock(state.mutex);
    check_idle(state);
    if (count > state.ids.size())
      throw Error(ErrorKind::kInput, "count is {}, the session has {} tokens", count,
                  state.ids.size());
    state.ids.resize(count);
    return VEERY_OK;
  });
}

veery_status veery_session_ids(const veery_session* session, int32_t** ids, size_t* count) {
  return guarded([&] {
    required(ids, "ids") = nullptr;
    required(count, "count") = 0;
    SessionState& state = *required(session, "session").state;
    const std::lock_guard lock(state.mutex);
    give_array(state.ids, ids, count);
    return VEERY_OK;
  });
}

veery_status veery_session_continue(veery_session* session, const veery_generate_options* options,
                                    veery_answer** answer) {
  return guarded([&] {
    required(answer, "answer") = nullptr;
    const std::shared_ptr<SessionState>& state = required(session, "session").state;
    const std::lock_guard lock(state->mutex);
    check_idle(*state);
    auto made = start(state->model, state->ids, options);
    state->busy = true;
    made->session = state;
    *answer = made.release();
    return VEERY_OK;
  });
}

veery_status veery_session_chain(veery_session* session, int32_t* ids, size_t count, size_t* made) {
  return guarded([&] {
    required(made, "made") = 0;
    if (count > 0) required(ids, "ids");
    veery_generate_options options = default_options(nullptr);
    options.temperature = 0;
    options.ignore_eos = 1;
    options.max_tokens = static_cast<int64_t>(std::min<size_t>(count, INT32_MAX));
    veery_answer* answer = nullptr;
    veery_status status = veery_session_continue(session, &options, &answer);
    if (status != VEERY_OK) return status;
    const std::unique_ptr<veery_answer> owned(answer);
    status = veery_answer_wait(answer, nullptr, nullptr);
    if (status != VEERY_OK) return status;
    const std::vector<int32_t>& found = answer->ticket->result().ids;
    std::copy(found.begin(), found.end(), ids);
    *made = found.size();
    return VEERY_OK;
  });
}

veery_status veery_session_save(const veery_session* session, const char* path) {
  return guarded([&] {
    SessionState& state = *required(session, "session").state;
    const std::string file = required_text(path, "path");
    const std::lock_guard lock(state.mutex);
    check_idle(state);
    const Lease lease(state.model);
    state.model->save(state.ids, file);
    return VEERY_OK;
  });
}

veery_status veery_session_load(veery_model* model, const char* path, veery_session** session) {
  return guarded([&] {
    required(session, "session") = nullptr;
    const std::shared_ptr<LoadedModel>& loaded = required(model, "model").loaded;
    loaded->require(Makes::kTexts);
    auto state = std::make_shared<SessionState>();
    state->model = loaded;
    const Lease lease(loaded);
    state->ids = loaded->load(required_text(path, "path"));
    *session = new veery_session{std::move(state)};
    return VEERY_OK;
  });
}
