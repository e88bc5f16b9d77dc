// convert.h: what `veery convert` hands to the writer of each kind of model.
#pragma once
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "convert/quant_mix.h"

namespace veery::cli {

/// Of outputs that are folders.
struct FolderFlags {
  std::string dtype, mode = "affine", shard_size = "5G";
  bool quantize = false;
  int bits = 0;
  int64_t group = 0;
  std::vector<std::string> rules;

  void add(Arguments& app);
};

struct ConvertRequest {
  std::string in, out;
  uint64_t split_bytes = 0;        ///< of a part; 0: one file
  const QuantMix* type = nullptr;  ///< of the matrices; null: each keeps its own
  bool requantize = false;
  bool dry = false;
  OutputFlags output;
  FolderFlags folder;
  ModelArguments common;
};

/// One kind of output: reads request.in, writes request.out, reports. Throws as the library does.
struct ConvertOutput {
  std::string_view name, summary;
  std::string_view ending;  ///< names of such files end so; empty: they are folders
  void (*write)(const ConvertRequest& request);
};

/// "5G", "500M", "5GB": powers of ten. Throws Misuse naming `flag`.
uint64_t parse_size(const std::string& flag, const std::string& text);

void convert_to_hugging_face(const ConvertRequest& request);
void convert_to_mlx(const ConvertRequest& request);

}  // namespace veery::cli
