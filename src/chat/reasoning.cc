#include "chat/reasoning.h"

#include "base/error.h"

namespace veery {

void set_thinking(Json& variables, bool wanted) {
  VEERY_CHECK(variables.is_object());
  variables["enable_thinking"] = wanted;
  variables["thinking"] = wanted;
}

void set_reasoning_effort(Json& variables, std::string_view effort) {
  VEERY_CHECK(variables.is_object());
  variables["reasoning_effort"] = effort;
  if (effort == "none") set_thinking(variables, false);
}

bool is_reasoning_level(std::string_view word) {
  return word == "low" || word == "medium" || word == "high";
}

}  // namespace veery
