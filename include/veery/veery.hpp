// veery.hpp: owners for the handles of veery.h. Each holds one handle, frees it, and throws
// veery::c::Failure if a call fails. Header only, C++17.
#ifndef VEERY_VEERY_HPP
#define VEERY_VEERY_HPP

#include <veery/veery.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace veery::c {

/// The status and message of a failed call.
class Failure : public std::runtime_error {
 public:
  Failure(veery_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  veery_status status() const { return status_; }

 private:
  veery_status status_;
};

/// Throws Failure if `status` is an error; returns it otherwise.
inline veery_status check(veery_status status) {
  if (status != VEERY_OK && status != VEERY_END && status != VEERY_TIMEOUT)
    throw Failure(status, veery_last_message());
  return status;
}

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* handle) const {
    Free(handle);
  }
};
template <typename T, auto Free>
using Owned = std::unique_ptr<T, Freed<Free>>;

/// Owns a text or an array that a call returned.
template <typename T>
using Given = Owned<T, veery_free>;

inline veery_load_options load_options() {
  veery_load_options options;
  check(veery_load_options_init(&options, sizeof options));
  return options;
}

class Answer {
 public:
  using OnText = std::function<bool(std::string_view)>;  ///< returns false to end the answer

  explicit Answer(veery_answer* answer) : handle_(answer) {}
  veery_answer* get() const { return handle_.get(); }

  /// Reads to the end. Exceptions of `on_text` propagate; the answer can be read further.
  Answer& wait(const OnText& on_text = {}) {
    veery_piece piece;
    while (check(veery_answer_next(get(), -1, &piece)) == VEERY_OK)
      if (on_text && !on_text({piece.text, piece.length})) cancel();
    return *this;
  }
  void cancel() { veery_answer_cancel(get()); }
  std::string text() const {
    size_t length = 0;
    const char* text = veery_answer_text(get(), &length);
    return {text, length};
  }
  std::vector<int32_t> ids() const {
    size_t count = 0;
    const int32_t* ids = veery_answer_ids(get(), &count);
    return {ids, ids + count};
  }
  veery_usage usage() const {
    veery_usage usage{};
    usage.size = sizeof usage;
    check(veery_answer_get_usage(get(), &usage));
    return usage;
  }
  /// Returns the message of the assistant as JSON; only for chats.
  std::string message() const {
    char* json = nullptr;
    check(veery_answer_message(get(), &json, nullptr));
    return Given<char>(json).get();
  }

 private:
  Owned<veery_answer, veery_answer_free> handle_;
};

class Session {
 public:
  explicit Session(veery_session* session) : handle_(session) {}
  veery_session* get() const { return handle_.get(); }

  Session fork() const {
    veery_session* made = nullptr;
    check(veery_session_fork(get(), &made));
    return Session(made);
  }
  void append(std::string_view text) {
    check(veery_session_append(get(), text.data(), text.size()));
  }
  void save(const std::string& path) const { check(veery_session_save(get(), path.c_str())); }
  Answer go_on(const veery_generate_options* options = nullptr) {
    veery_answer* answer = nullptr;
    check(veery_session_continue(get(), options, &answer));
    return Answer(answer);
  }

 private:
  Owned<veery_session, veery_session_free> handle_;
};

class Inspection {
 public:
  explicit Inspection(veery_inspection* inspection) : handle_(inspection) {}
  veery_inspection* get() const { return handle_.get(); }

  size_t size() const { return veery_inspection_count(get()); }  ///< layers
  veery_inspected_layer layer(size_t index) const {
    veery_inspected_layer layer;
    check(veery_inspection_get_layer(get(), index, &layer));
    return layer;
  }
  veery_values values(size_t index, veery_inspect_part part) const {
    veery_values values;
    check(veery_inspection_get_values(get(), index, part, &values));
    return values;
  }
  std::vector<veery_token> lens(size_t index, size_t position) const {
    const veery_token* top = nullptr;
    size_t count = 0;
    check(veery_inspection_lens(get(), index, position, &top, &count));
    return {top, top + count};
  }

 private:
  Owned<veery_inspection, veery_inspection_free> handle_;
};

class Model {
 public:
  explicit Model(const std::string& path, const veery_load_options* options = nullptr) {
    veery_model* model = nullptr;
    check(veery_model_load(path.c_str(), options, &model));
    handle_.reset(model);
  }
  veery_model* get() const { return handle_.get(); }

  veery_generate_options generate_options() const {
    veery_generate_options options;
    check(veery_generate_options_init(&options, sizeof options, get()));
    return options;
  }
  std::vector<int32_t> tokenize(std::string_view text, bool special = true) const {
    int32_t* ids = nullptr;
    size_t count = 0;
    check(veery_tokenize(get(), text.data(), text.size(), special ? 1 : 0, &ids, &count));
    const Given<int32_t> owned(ids);
    return {ids, ids + count};
  }
  std::string detokenize(const std::vector<int32_t>& ids, bool special = false) const {
    char* text = nullptr;
    size_t length = 0;
    check(veery_detokenize(get(), ids.data(), ids.size(), special ? 1 : 0, &text, &length));
    const Given<char> owned(text);
    return {text, length};
  }
  Answer start(const std::vector<int32_t>& ids,
               const veery_generate_options* options = nullptr) const {
    veery_answer* answer = nullptr;
    check(veery_start(get(), ids.data(), ids.size(), options, &answer));
    return Answer(answer);
  }
  Answer chat(const std::string& messages, const veery_generate_options* options = nullptr) const {
    veery_answer* answer = nullptr;
    check(veery_start_chat(get(), messages.c_str(), options, &answer));
    return Answer(answer);
  }
  Inspection inspect(const std::vector<int32_t>& ids,
                     const veery_inspect_options* options = nullptr) const {
    veery_inspection* inspection = nullptr;
    check(veery_inspect(get(), ids.data(), ids.size(), options, &inspection));
    return Inspection(inspection);
  }
  Session session() const {
    veery_session* session = nullptr;
    check(veery_session_create(get(), &session));
    return Session(session);
  }
  Session load_session(const std::string& path) const {
    veery_session* session = nullptr;
    check(veery_session_load(get(), path.c_str(), &session));
    return Session(session);
  }

 private:
  Owned<veery_model, veery_model_free> handle_;
};

}  // namespace veery::c

#endif
