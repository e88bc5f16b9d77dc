// ollama.h: parts of requests and answers that Ollama's endpoints share.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "serve/api/context.h"
#include "serve/api/fields.h"
#include "serve/models/models.h"

namespace veery::serve {

/// Returns a time like "2024-05-17T12:34:56Z"; `seconds`: since 1970.
std::string ollama_time(int64_t seconds);

/// Returns the id of the model that a request names, which may end in ":latest". Throws ApiError
/// 404 with Ollama's message if the server has no such model.
std::string ollama_model(Context& context, const Fields& fields);

/// Returns the seconds of keep_alive, which is a number or a text such as "5m", "1h30m" or "-1";
/// nothing if the field is absent.
std::optional<KeepAlive> ollama_keep_alive(const Fields& fields);

}  // namespace veery::serve
