// multipart.h: the fields of a form with files, as browsers and clients send it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery::serve {

struct FormPart {
  std::string name, file_name;  ///< file_name is empty where the part is no file
  std::string_view body;        ///< within the body of the request
};

/// The parts of a body of type multipart/form-data (RFC 7578, RFC 2046), in its order. `type`: the
/// Content-Type, which holds the boundary. Throws kInput naming what is wrong.
std::vector<FormPart> parse_form(std::string_view type, std::string_view body);

}  // namespace veery::serve
