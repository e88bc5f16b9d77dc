// words.h: case-insensitive words in HTTP headers.
#pragma once
#include <string>
#include <string_view>

namespace veery::serve {

/// Returns the text with ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// Returns the host of a Host header or a URL's authority in the form for comparisons: in lower
/// case, without user, port, the brackets of an IPv6 address and a final dot.
std::string normal_host(std::string_view authority);

/// Returns the token of "Bearer TOKEN", whose scheme is case-insensitive (RFC 9110, 11.1); empty
/// for other headers.
std::string_view bearer_token(std::string_view authorization);

}  // namespace veery::serve
