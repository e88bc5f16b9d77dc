// convert.h: the request of `veery convert` and the writer of each output format.
#pragma once
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "convert/quant_mix.h"

namespace veery::cli {

/// Flags of outputs that are folders.
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
  uint64_t split_bytes = 0;        ///< maximum of a part; 0: one file
  const QuantMix* type = nullptr;  ///< of the matrices; null: unchanged
  bool requantize = false;
  bool dry = false;
  OutputFlags output;
  FolderFlags folder;
  ModelArguments common;
};

/// One output format. `write` reads request.in, writes request.out and prints a report.
struct ConvertOutput {
  std::string_view name, summary;
  std::string_view ending;  ///< of file names; empty: the output is a folder
  void (*write)(const ConvertRequest& request);
};

/// Parses "5G", "500M" or "5GB" (powers of ten) to bytes. Throws Misuse naming `flag`.
uint64_t parse_size(const std::string& flag, const std::string& text);

void convert_to_hugging_face(const ConvertRequest& request);
void convert_to_mlx(const ConvertRequest& request);

}  // namespace veery::cli
