// base64.h: base64 (RFC 4648).
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace veery {

std::string encode_base64(std::string_view bytes);

/// Returns the decoded bytes, or nullopt if `text` has other characters. Padding is optional.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace veery
