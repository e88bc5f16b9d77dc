// batch.h: answers requests from a file, in the format of OpenAI's Batch API.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "serve/service.h"

namespace veery::serve {

struct BatchOptions {
  int32_t workers = 8;  ///< requests that are answered at a time
  /// An object: default members of the bodies.
  Json defaults = Json::object();
};

struct BatchCounts {
  int64_t requests = 0, errors = 0;
};

/// Answers the requests of `lines`. A line is a JSON object {"custom_id", "method": "POST", "url",
/// "body"} or a string, the message of a user. Only the body of an object is required; the default
/// URL is /v1/chat/completions. Passes one line per request to `take`, in order, in the format of
/// OpenAI's output files: {"id", "custom_id", "response": {"status_code", "request_id", "body"},
/// "error"}. An invalid line gives an error in its place and does not affect the others. `first`:
/// the number of the first line, for messages. Throws what `take` throws, after it has cancelled
/// running requests.
BatchCounts answer_batch(Service& service, std::span<const std::string_view> lines, int64_t first,
                         const BatchOptions& options,
                         const std::function<void(std::string_view line)>& take);

/// Returns the custom_id of an input or output line; empty if it has none or is not JSON.
std::string custom_id_of(std::string_view line);

}  // namespace veery::serve
