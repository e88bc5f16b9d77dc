// run_inputs.h: the inputs that most graphs of tests declare, for tests that make a RunBlock before
// they make their graph.
#pragma once
#include <vector>

#include "plan/run_block.h"

namespace veery::test {

inline std::vector<InputSpec> usual_inputs() {
  const auto indices = [](const char* name, Symbol rows) {
    return InputSpec{name, {{rows, 1}, DType::kI32}};
  };
  return {indices("tokens", Symbol::kRows), indices("positions", Symbol::kRows),
          indices("targets", Symbol::kRows), indices("output_rows", Symbol::kOutputs)};
}

}  // namespace veery::test
