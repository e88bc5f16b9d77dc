// api_error.h: what is wrong with a request, with the status and the fields that clients read.
#pragma once
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace veery::serve {

/// `param`: the field that is meant; `code`: a word for programs. Empty: null.
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

/// How errors look: each family of clients has a form of its own.
enum class Family { kOpenAi, kAnthropic, kOllama };

/// The error for a prompt of `tokens` that leaves no room for an answer in a context of `context`
/// tokens: status 400 and code "context_length_exceeded". Clients recognise its text and shorten
/// the conversation: litellm, Cline and aider match "maximum context length is N tokens", Claude
/// Code matches "prompt is too long". `field`: holds the prompt.
ApiError context_length_error(Family family, int64_t tokens, int64_t context,
                              const std::string& field);

/// What an exception means for a client: wrong input is 400, too many requests 429, all else 500.
/// What went wrong inside of the server is for its log, so the client is told no more than that it
/// did.
ApiError api_error(const std::exception& error);

/// The bodies of errors, as clients of the three families read them.
Json openai_error(const ApiError& error);
Json anthropic_error(const ApiError& error);
Json ollama_error(const ApiError& error);

}  // namespace veery::serve
