#include "base/error.h"

namespace veery {

void check_failed(const char* file, int line, const char* condition) {
  throw Error(ErrorKind::kBug, "{}:{}: check failed: {}", file, line, condition);
}

}  // namespace veery
