#include "serve/api/api_error.h"

#include <fmt/format.h>

#include <new>

#include "base/mapped_file.h"
#include "device/memory_pool.h"
#include "schedule/scheduler.h"
#include "serve/models/models.h"

namespace veery::serve {
namespace {

constexpr const char* kInternal = "internal error; the log of the server has the details";

// An error that is over soon.
ApiError busy(int status, const std::string& message, const std::string& field = {},
              const std::string& word = {}) {
  ApiError error(status, message, field, word);
  error.retry_after = 1;
  return error;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

const char* openai_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ApiError context_length_error(Family family, int64_t tokens, int64_t context,
                              const std::string& field) {
  const std::string message =
      family == Family::kAnthropic
          ? fmt::format("prompt is too long: {} tokens > {} maximum", tokens, context - 1)
          : fmt::format(
                "This model's maximum context length is {} tokens. However, you requested {} "
                "tokens "
                "in {}, which leaves no room for an answer. Please shorten {}.",
                context, tokens, field, field);
  return {400, message, field, "context_length_exceeded"};
}

ApiError api_error(const std::exception& error) {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) return *known;
  if (dynamic_cast<const QueueFull*>(&error) != nullptr) return busy(429, error.what());
  if (dynamic_cast<const UnknownModel*>(&error) != nullptr)
    return {404, error.what(), "model", "model_not_found"};
  if (const auto* none = dynamic_cast<const NoRoom*>(&error))
    return none->passing() ? busy(503, error.what(), {}, "models_are_busy")
                           : ApiError(503, error.what(), {}, "model_too_large");
  if (dynamic_cast<const OutOfDeviceMemory*>(&error) != nullptr)
    return {503, error.what(), {}, "out_of_memory"};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return busy(503, "the server's memory is short", {}, "out_of_memory");
  if (dynamic_cast<const FileChanged*>(&error) != nullptr)
    return busy(503, error.what(), "model", "model_file_changed");
  if (const auto* failure = dynamic_cast<const LoadFailure*>(&error))
    return {failure->passing() ? 503 : 500, error.what(), "model", "model_not_loaded"};
  const auto* own = dynamic_cast<const Error*>(&error);
  if (own == nullptr) return {500, kInternal};
  switch (own->kind()) {
    case ErrorKind::kInput:
    case ErrorKind::kFormat:
    case ErrorKind::kUnsupported:
    case ErrorKind::kLimit: return {400, error.what()};
    case ErrorKind::kNotFound: return {404, error.what()};
    case ErrorKind::kIo:
    case ErrorKind::kBug: break;
  }
  return {500, kInternal};
}

Json openai_error(const ApiError& error) {
  return {{"error",
           {{"message", error.what()},
            {"type", openai_type(error.status)},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

Json anthropic_error(const ApiError& error) {
  return {{"type", "error"},
          {"error", {{"type", anthropic_type(error.status)}, {"message", error.what()}}}};
}

Json ollama_error(const ApiError& error) { return {{"error", error.what()}}; }

}  // namespace veery::serve
