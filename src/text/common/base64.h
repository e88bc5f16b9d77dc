// base64.h: bytes written in base64 (RFC 4648).
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace veery {

std::string encode_base64(std::string_view bytes);

/// The bytes that `text` stands for; absent if it has other characters. Padding is optional.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace veery
