// ollama.h: what Ollama's endpoints share.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "serve/api/context.h"
#include "serve/api/fields.h"
#include "serve/models/models.h"

namespace veery::serve {

/// "2024-05-17T12:34:56Z" of seconds since 1970.
std::string ollama_time(int64_t seconds);

/// The model that a request names, which may end in ":latest". Throws ApiError 404 in Ollama's
/// words if the server has none of that name.
std::string ollama_model(Context& context, const Fields& fields);

/// The seconds of keep_alive: a number, or a text such as "5m", "1h30m", "-1"; nothing if the
/// field is absent.
std::optional<KeepAlive> ollama_keep_alive(const Fields& fields);

}  // namespace veery::serve
