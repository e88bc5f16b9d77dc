// printable.h: names out of files, fit for one line of a message.
#pragma once
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace veery {

/// At most 80 bytes, valid UTF-8, control characters as '?'.
inline std::string printable(std::string_view name) {
  constexpr size_t kLongest = 80;
  std::string text = valid_utf8(name.substr(0, kLongest));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  return name.size() > kLongest ? text + "..." : text;
}

}  // namespace veery
