// Verifies real models.
#include <gtest/gtest.h>

#include "support/models.h"
#include "verify/verify.h"

namespace veery {
namespace {

TEST(VerifyModel, RealModelPassesAllChecks) {
  const std::string path = test::model_path(test::kSmolLM2);
  VEERY_NEEDS_MODEL(path);
  const Report report = verify(path);
  EXPECT_GT(report.checks().size(), 25U);
  for (const Check& check : report.checks())
    EXPECT_EQ(check.state, CheckState::kOk) << check.name << ": " << check.found;
}

}  // namespace
}  // namespace veery
