// batch.h: many requests from a file, without a network (the form is that of OpenAI's Batch API).
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
  int32_t workers = 8;  ///< requests in the making at a time
  /// An object: members that each body has that does not have them itself.
  Json defaults = Json::object();
};

struct BatchCounts {
  int64_t requests = 0, errors = 0;
};

/// Answers lines, one JSON value each: {"custom_id", "method": "POST", "url", "body"}, where all
/// but the body may be absent (the url then is /v1/chat/completions), or a string, which is the
/// message of a user. `take` gets a line for each, in their order, as OpenAI's output files have
/// it:
/// {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}; what is no
/// request has an error there and takes nothing from the others. `first`: the number of the first
/// one, for messages. Throws what `take` throws; what is in the making ends then.
BatchCounts answer_batch(Service& service, std::span<const std::string_view> lines, int64_t first,
                         const BatchOptions& options,
                         const std::function<void(std::string_view line)>& take);

/// The custom_id of an input or output line; empty: it has none, or the line is no JSON.
std::string custom_id_of(std::string_view line);

}  // namespace veery::serve
