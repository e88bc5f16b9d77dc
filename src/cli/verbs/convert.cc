// convert.cc: `veery convert`: converts a model to another format.
#include "cli/verbs/convert.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/output/interruption.h"
#include "cli/output/tensor_table.h"
#include "cli/verbs/verbs.h"
#include "convert/as_gguf.h"

namespace veery::cli {
namespace {

std::vector<TensorPlan> plans_of(const ModelFile& file, const ConvertRequest& request) {
  return request.type == nullptr ? keep_types(file) : plan_types(file, *request.type, {});
}

// Returns the paths of the files that it replaced.
std::vector<std::string> write_gguf_file(const ConvertRequest& request, const ModelFile& file,
                                         std::span<const TensorPlan> plans) {
  std::vector<std::string> replaced;
  ThreadPool pool(request.common.threads);
  Writing writing("converting");
  QuantizeOptions options;
  // Dequantising loses nothing, so it needs no --allow-requantize.
  options.requantize =
      request.requantize || request.type == nullptr || !info(request.type->type).quantized;
  options.existing = request.output.existing();
  options.replaced = &replaced;
  options.progress = writing.progress();
  const Metadata metadata = request.type == nullptr
                                ? retyped_metadata(file, plans)
                                : quantized_metadata(file, *request.type, nullptr, {});
  options.split_bytes = request.split_bytes;
  write_quantized(file, plans, metadata, request.out, pool, options);
  return replaced;
}

void to_gguf(const ConvertRequest& request) {
  const double start = seconds_now();
  if (!request.dry && request.split_bytes == 0) request.output.check(request.out, {request.in});
  const ModelFile file = open_as_gguf(request.in);
  const std::vector<TensorPlan> plans = plans_of(file, request);
  warn_of_missing_importance(file, plans, nullptr);
  std::vector<std::string> replaced;
  if (!request.dry) replaced = write_gguf_file(request, file, plans);
  report_written(file, plans,
                 {.seconds = seconds_now() - start,
                  .dry = request.dry,
                  .json = request.common.json,
                  .replaced = std::move(replaced)});
}

// The output formats.
constexpr ConvertOutput kOutputs[] = {
    {"gguf", "GGUF file (one, or parts of --split-size)", ".gguf", to_gguf},
    {"hf", "folder for transformers", "", convert_to_hugging_face},
    {"mlx", "folder for mlx-lm; quantised with -q", "", convert_to_mlx},
};

const ConvertOutput& find_output(const std::string& name, const std::string& out) {
  std::string known;
  for (const ConvertOutput& output : kOutputs) {
    if (name.empty() ? !output.ending.empty() && out.ends_with(output.ending) : name == output.name)
      return output;
    known += (known.empty() ? "" : ", ") + std::string(output.name);
  }
  throw Misuse("--to",
               name.empty()
                   ? fmt::format("missing format: '{}' does not end in .gguf, expected one of {}",
                                 out, known)
                   : fmt::format("'{}' is not one of {}", name, known));
}

// The formats that a flag applies to, for flags that do not apply to all.
struct KindsOfFlag {
  const char* flag;
  std::string_view kinds;
};
constexpr KindsOfFlag kFlags[] = {
    {"--type", "gguf"},    {"--split-size", "gguf"}, {"--allow-requantize", "gguf"},
    {"--force", "gguf"},   {"--dtype", "hf, mlx"},   {"--shard-size", "hf, mlx"},
    {"--quantize", "mlx"}, {"--bits", "mlx"},        {"--group-size", "mlx"},
    {"--mode", "mlx"},     {"--rule", "mlx"}};

void check_flags(const Arguments& app, const ConvertOutput& output) {
  for (const auto& [flag, kinds] : kFlags)
    if (app.count(flag) > 0 && kinds.find(output.name) == std::string_view::npos)
      throw Misuse(flag, fmt::format("applies to {}, found --to {}", kinds, output.name));
}

}  // namespace

void convert_verb(std::vector<std::string> arguments) {
  std::string kinds;
  for (const ConvertOutput& output : kOutputs)
    kinds += fmt::format("\n  {:10} {}", output.name, output.summary);
  Arguments app("convert", "Converts a model to another format. Formats are" + kinds,
                "  veery convert Qwen3-0.6B qwen3.gguf --type f16\n"
                "  veery convert model-q4.gguf model-f32.gguf --type f32\n"
                "  veery convert model-f16.gguf folder --to hf --dtype bfloat16\n"
                "  veery convert Qwen3-0.6B qwen3-4bit --to mlx -q --bits 4 --rule 'lm_head=8'");
  ConvertRequest request;
  std::string to, type, split_size;
  app.option("IN", request.in, "GGUF file or model folder to read")
      .type_name("")
      .models()
      .required();
  app.option("OUT", request.out, "File or new folder to write; ignored with --dry-run")
      .type_name("")
      .files({"gguf"})
      .required();
  app.option("--to", to, "Format: gguf, hf or mlx [gguf if OUT ends in .gguf]")
      .type_name("KIND")
      .choices({"gguf", "hf", "mlx"});
  app.option("--type", type, "gguf: type of the matrices, as in 'veery quantize' [unchanged]")
      .type_name("TYPE")
      .choices(quant_mix_names());
  app.option("--split-size,--split-max-size", split_size,
             "gguf: split into files of at most this size [one file]")
      .type_name("SIZE");
  request.folder.add(app);
  app.flag("--allow-requantize", request.requantize,
           "gguf: also quantise weights that are quantised already");
  request.output.add(app, "gguf: replace files that exist (folders are never replaced)");
  app.flag("--dry-run", request.dry, "Only print the type and size that each tensor would get");
  request.common.add_threads(app);
  request.common.add_json(app, "Print a JSON object: type, bytes, seconds, tensors");
  app.read(std::move(arguments));
  const ConvertOutput& output = find_output(to, request.out);
  if (!type.empty()) request.type = read_value("--type", [&] { return &find_quant_mix(type); });
  check_flags(app, output);
  if (!split_size.empty()) request.split_bytes = parse_size("--split-size", split_size);
  output.write(request);
}

}  // namespace veery::cli
