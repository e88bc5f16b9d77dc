// multipart.h: parses forms with files (multipart/form-data).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery::serve {

struct FormPart {
  std::string name, file_name;  ///< file_name: empty if the part is not a file
  std::string_view body;        ///< a part of the request's body
};

/// Returns the parts of a body of type multipart/form-data (RFC 7578, RFC 2046), in order. `type`:
/// the Content-Type with the boundary. Throws kInput for a malformed form.
std::vector<FormPart> parse_form(std::string_view type, std::string_view body);

}  // namespace veery::serve
