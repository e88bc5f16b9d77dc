#include "base/json.h"

#include "base/error.h"

namespace veery {

Json parse_json(std::string_view text, const std::string& what, int max_depth) {
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > max_depth;
    if (too_deep) throw Error(ErrorKind::kFormat, "{}: more than {} levels deep", what, max_depth);
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kFormat, "{}: not valid JSON: {}", what, error.what());
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace veery
