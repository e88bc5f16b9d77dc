// page.h: the web page of the server, one document without anything from elsewhere.
#pragma once
#include <string_view>

namespace veery::serve {

/// HTML with its styles and scripts.
extern const std::string_view kPage;

}  // namespace veery::serve
