// Sessions and classification. Both submit requests to the scheduler; its prefix cache avoids
// evaluating common beginnings again.
#include <algorithm>

#include "capi/answers.h"
#include "capi/generate_options.h"
#include "capi/results.h"
#include "chat/chat.h"
#include "tasks/classify.h"

namespace veery::capi {

/// The tokens of a session; the answer that continues it shares them with the handle.
struct SessionState {
  std::shared_ptr<LoadedModel> model;
  std::mutex mutex;
  std::vector<int32_t> ids;
  bool busy = false;
};

}  // namespace veery::capi

struct veery_session {
  std::shared_ptr<veery::capi::SessionState> state;
  const veery::capi::LoadedModel& model() const { return *state->model; }
};

namespace veery::capi {
namespace {

void check_idle(const SessionState& state) {
  if (state.busy)
    throw Busy("the session is being continued: read its answer to the end, or free it");
}

std::unique_ptr<veery_answer> go_on(veery_session& session, const veery_generate_options* options,
                                    bool whole) {
  const std::shared_ptr<SessionState>& state = session.state;
  const std::lock_guard lock(state->mutex);
  check_idle(*state);
  auto made = start(state->model, state->ids, options, nullptr, whole);
  state->busy = true;
  made->on_end = [state](const std::vector<int32_t>& ids) {
    const std::lock_guard ended(state->mutex);
    state->busy = false;
    state->ids.insert(state->ids.end(), ids.begin(), ids.end());
  };
  return made;
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
    const LabelTokens asked =
        encode_labels(loaded->model().tokenizer(), text_of(prompt, length, "prompt"), texts);
    const LabelScores scores =
        score_labels([&](GenerateRequest request) { return loaded->submit(std::move(request)); },
                     loaded->slots(), {&asked, 1})[0];
    const std::vector<double> shares = scores.probabilities();
    for (size_t i = 0; i < count; ++i) {
      logprobs[i] = static_cast<float>(scores.logprobs[i]);
      if (probabilities != nullptr) probabilities[i] = static_cast<float>(shares[i]);
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

void veery_session_free(veery_session* session) { free_handle(session); }

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
    *answer = go_on(required(session, "session"), options, false).release();
    return VEERY_OK;
  });
}

veery_status veery_session_chain(veery_session* session, int32_t* ids, size_t count, size_t* made) {
  return guarded([&] {
    required(made, "made") = 0;
    if (count > 0) required(ids, "ids");
    veery_generate_options options = default_generate_options(nullptr);
    options.temperature = 0;
    options.ignore_eos = 1;
    options.max_tokens = static_cast<int64_t>(std::min<size_t>(count, INT32_MAX));
    const std::unique_ptr<veery_answer> answer =
        go_on(required(session, "session"), &options, true);
    const veery_status status = veery_answer_wait(answer.get(), nullptr, nullptr);
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
