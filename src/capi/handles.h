// handles.h: what is behind the handles of the C interface, and how its calls end.
#pragma once
#include <veery/veery.h>

#include <concepts>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "capi/loaded_model.h"
#include "chat/conversation.h"
#include "text/answer/answer_parser.h"

namespace veery::capi {

/// An answer of the same handle is in the making.
class Busy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Keeps the message of the exception in flight for this thread; the status it is.
veery_status status_of_exception() noexcept;

/// What every call that can fail is wrapped in.
template <typename F>
veery_status guarded(F&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return status_of_exception();
  }
}

/// Throws kInput naming an argument that is null.
template <typename T>
T& required(T* argument, const char* name) {
  if (argument == nullptr) throw Error(ErrorKind::kInput, "{} is null", name);
  return *argument;
}

/// Throws kInput unless `size` is that of T as this library knows it.
template <typename T>
void check_size(size_t size, const char* type) {
  if (size != sizeof(T))
    throw Error(ErrorKind::kInput,
                "{}: its size is {}, expected {}: it was not initialised, or the header is that of "
                "another version",
                type, size, sizeof(T));
}

/// `given`, or `otherwise` where it is null.
template <typename T>
T options_or(const T* given, const T& otherwise, const char* type) {
  if (given == nullptr) return otherwise;
  check_size<T>(given->size, type);
  return *given;
}

/// Throws kInput for null, unless the length is 0.
std::string_view text_of(const char* text, size_t length, const char* name);
/// Of a zero-terminated text that is required.
std::string required_text(const char* text, const char* name);
/// Texts, each required.
std::vector<std::string> texts_of(const char* const* texts, size_t count, const char* name);
std::vector<int32_t> ids_of(const int32_t* ids, size_t count);

/// Copies for veery_free().
void give_text(std::string_view text, char** out, size_t* length);
void give_bytes(const void* data, size_t bytes, void** out);
template <typename T>
void give_array(const std::vector<T>& values, T** out, size_t* count) {
  void* copy = nullptr;
  give_bytes(values.data(), values.size() * sizeof(T), &copy);
  *out = static_cast<T*>(copy);
  *count = values.size();
}

/// The tokens of a session; answers share it with the handle.
struct SessionState {
  std::shared_ptr<LoadedModel> model;
  std::mutex mutex;
  std::vector<int32_t> ids;
  bool busy = false;
};

/// The prompt of a chat and how its answer is read. Throws kInput or kFormat naming what is wrong
/// with messages or variables, kUnsupported where the model has no template.
RenderedConversation render_chat(const LoadedModel& model, const char* messages,
                                 const char* variables);

/// Starts it on the model's scheduler. `whole`: GenerateRequest::whole. Throws as
/// Scheduler::submit(), and kInput naming an option.
std::unique_ptr<veery_answer> start(const std::shared_ptr<LoadedModel>& model,
                                    std::vector<int32_t> ids, const veery_generate_options* options,
                                    const RenderedConversation* chat = nullptr, bool whole = false);

veery_generate_options default_options(const LoadedModel* model);
/// All but prompt and grammar. Throws kInput naming an option.
GenerateOptions read_options(const LoadedModel& model, const veery_generate_options& given);

}  // namespace veery::capi

struct veery_model {
  std::shared_ptr<veery::capi::LoadedModel> loaded;
  const veery::capi::LoadedModel& model() const { return *loaded; }
};

struct veery_session {
  std::shared_ptr<veery::capi::SessionState> state;
  const veery::capi::LoadedModel& model() const { return *state->model; }
};

/// What was read is guarded by the mutex; waiting is done outside of it.
struct veery_answer {
  struct Scored {
    veery_token token;
    std::vector<veery_token> top;
  };

  veery_answer(std::shared_ptr<veery::capi::LoadedModel> model,
               std::shared_ptr<veery::Ticket> request)
      : lease(std::move(model)), ticket(std::move(request)) {}
  ~veery_answer();

  const veery::capi::LoadedModel& model() const { return lease.model(); }
  veery_status next(double seconds, veery_piece* given);
  /// The end was read: nothing more comes. `whole`: without an error.
  void end(bool whole);

  veery::capi::Lease lease;
  std::shared_ptr<veery::Ticket> ticket;
  std::shared_ptr<veery::capi::SessionState> session;  ///< that it continues, or null
  mutable std::mutex mutex;
  std::string text, piece;
  std::vector<Scored> scores;
  std::unique_ptr<veery::AnswerParser> parser;  ///< of a chat
  bool over = false;
};

namespace veery::capi {

/// A handle that belongs to a model: veery_model, veery_session, veery_answer.
template <typename T>
concept ModelHandle = requires(const T& handle) {
  { handle.model() } -> std::same_as<const LoadedModel&>;
};

/// As above; throws kUnsupported too if the model was loaded before a fork of this process.
template <ModelHandle T>
T& required(T* handle, const char* name) {
  if (handle == nullptr) throw Error(ErrorKind::kInput, "{} is null", name);
  handle->model().check_process();
  return *handle;
}

/// Whether `handle` can be used without waiting.
template <ModelHandle T>
bool is_usable(const T* handle) {
  return handle != nullptr && handle->model().is_here();
}

/// Deletes `handle`. After a fork it is left to the end of the process: its destructor would wait
/// for threads that this process does not have.
template <ModelHandle T>
void free_handle(T* handle) noexcept {
  guarded([&] {
    if (is_usable(handle)) delete handle;
    return VEERY_OK;
  });
}

}  // namespace veery::capi
