#include "base/json.h"

#include "base/json_reader.h"

namespace veery {

Json parse_json(std::string_view text, const std::string& what, int max_depth) {
  JsonReader reader(text, what, max_depth);
  Json value = reader.value();
  reader.finish();
  return value;
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace veery
