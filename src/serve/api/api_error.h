// api_error.h: errors of requests, with the status and the fields that clients read.
#pragma once
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace veery::serve {

/// An error that is sent to the client. `param`: the wrong field; `code`: a word for programs.
/// Empty texts are sent as null.
struct ApiError : std::runtime_error {
  ApiError(int http_status, const std::string& message, std::string field = {},
           std::string word = {})
      : std::runtime_error(message),
        status(http_status),
        param(std::move(field)),
        code(std::move(word)) {}

  int status;
  std::string param, code;
  double retry_after = 0;  ///< seconds after which the request may be sent again; 0: unknown
};

/// Families of clients, which expect errors in different formats.
enum class Family { kOpenAi, kAnthropic, kOllama };

/// The error for a prompt of `tokens` that leaves no room for an answer in a context of `context`
/// tokens: status 400 and code "context_length_exceeded". Clients recognise its text and shorten
/// the conversation: litellm, Cline and aider match "maximum context length is N tokens", Claude
/// Code matches "prompt is too long". `field`: the field of the prompt.
ApiError context_length_error(Family family, int64_t tokens, int64_t context,
                              const std::string& field);

/// Converts an exception to an error for the client: 400 for wrong input, 429 for too many
/// requests, 503 for passing conditions such as short memory, else 500. Details of errors inside
/// the server are only for its log.
ApiError api_error(const std::exception& error);

/// Return the body of an error in the format of a family.
Json openai_error(const ApiError& error);
Json anthropic_error(const ApiError& error);
Json ollama_error(const ApiError& error);

}  // namespace veery::serve
