// convert.h: what `veery convert` hands to the writer of each kind of model.
#pragma once
#include "cli/cli.h"
#include "model/mixture.h"

namespace veery::cli {

struct ConvertRequest {
  std::string in, out;
  const Mixture* type = nullptr;  ///< of the matrices; null: each keeps its own
  bool requantize = false;
  bool dry = false;
  ModelArguments common;
};

/// One kind of output: reads request.in, writes request.out, reports. Throws as the library does.
struct ConvertOutput {
  std::string_view name, summary;
  std::string_view ending;  ///< names of such files end so; empty: they are folders
  void (*write)(const ConvertRequest& request);
};

}  // namespace veery::cli
