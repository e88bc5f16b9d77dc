// errors.h: errors that tests expect.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "veery/tensor.hpp"

namespace veery::tensor::test {

/// The error that an action throws.
template <typename Action>
Error error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::kInternal, "nothing was thrown"};
}

/// Expects an error of a kind whose message has all of `parts`.
template <typename Action, typename... Parts>
void expect_error(ErrorKind kind, const Action& action, const Parts&... parts) {
  const Error error = error_of(action);
  const std::string text = error.what();
  EXPECT_EQ(error.kind(), kind) << text;
  for (const std::string& part : std::vector<std::string>{parts...})
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

}  // namespace veery::tensor::test

/// As expect_error(), with an expression for the action.
#define VEERY_EXPECT_ERROR(kind, expression, ...)    \
  veery::tensor::test::expect_error(ErrorKind::kind, \
                                    [&] { (void)(expression); } __VA_OPT__(, ) __VA_ARGS__)
