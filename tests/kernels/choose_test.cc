// The error of choose_kernel() if no kernel accepts the operands.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "kernels/kernels.h"

namespace veery {
namespace {

std::string refusal(Layout layout) {
  Dispatch dispatch;
  dispatch.in[0].dtype = DType::kQ8_0;
  dispatch.in[0].rows = 7;
  dispatch.in[0].cols = 96;
  dispatch.in[0].layout = layout;
  try {
    choose_kernel(op::kCrossEntropy, dispatch, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(ChooseKernel, EveryLayoutHasANameInTheRefusal) {
  const std::pair<Layout, const char*> names[] = {{Layout::kRowMajor, "rows"},
                                                  {Layout::kPanels, "panels"},
                                                  {Layout::kKeyPages, "key pages"},
                                                  {Layout::kValuePages, "value pages"},
                                                  {Layout::kBlocks, "blocks"}};
  for (const auto& [layout, name] : names)
    EXPECT_EQ(refusal(layout), std::string("cross_entropy: no kernel for q8_0 7 x 96 in ") + name);
}

}  // namespace
}  // namespace veery
