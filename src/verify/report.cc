#include "verify/report.h"

#include <fmt/format.h>

namespace veery {

std::string_view name(CheckState state) {
  switch (state) {
    case CheckState::kOk: return "ok";
    case CheckState::kWarn: return "warn";
    case CheckState::kFail: return "fail";
    case CheckState::kSkipped: return "skipped";
  }
  return "unknown";
}

}  // namespace veery
