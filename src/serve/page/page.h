// page.h: the web page of the server, one document without anything from elsewhere, and what says
// how programs may ask.
#pragma once
#include <string_view>

namespace veery::serve {

/// HTML with its styles and scripts.
extern const std::string_view kPage;
/// OpenAPI 3.1, with kOpenApiVersion where the version of veery belongs.
extern const std::string_view kOpenApi;
inline constexpr std::string_view kOpenApiVersion = "VERSION";

}  // namespace veery::serve
