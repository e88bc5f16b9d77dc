// words.h: words of HTTP headers, of which letters may be of either case.
#pragma once
#include <string>
#include <string_view>

namespace veery::serve {

/// ASCII letters in lower case.
std::string lower_case(std::string_view text);

/// The host of a Host header or a URL's authority in the form in which hosts are compared: without
/// user, port, brackets of an IPv6 address and the dot at the end, in lower case.
std::string normal_host(std::string_view authority);

/// The token of "Bearer TOKEN", whose scheme may be of either case (RFC 9110, 11.1); empty: the
/// header has another form.
std::string_view bearer_token(std::string_view authorization);

}  // namespace veery::serve
