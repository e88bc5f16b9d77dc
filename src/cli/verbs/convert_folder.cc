// convert_folder.cc: `veery convert` to folders for transformers and mlx-lm.
#include <charconv>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/output/interruption.h"
#include "cli/output/output.h"
#include "cli/verbs/convert.h"
#include "convert/as_folder.h"
#include "convert/folder_text.h"
#include "import/open_model.h"

namespace veery::cli {
namespace {

DType parse_dtype(const std::string& name) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"float32", DType::kF32}, {"f32", DType::kF32},       {"float16", DType::kF16},
      {"f16", DType::kF16},     {"bfloat16", DType::kBF16}, {"bf16", DType::kBF16}};
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  throw Misuse("--dtype", fmt::format("'{}' is not one of float32, float16, bfloat16", name));
}

// Parses REGEX=BITS, REGEX=MODE or REGEX=none.
MlxRule parse_rule(const std::string& text, const MlxFormat& usual) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw Misuse("--rule",
                 fmt::format("found '{}', expected REGEX=BITS, REGEX=MODE or REGEX=none", text));
  const std::string value = text.substr(equals + 1);
  MlxRule rule{text.substr(0, equals), std::nullopt};
  if (value == "none") return rule;
  int bits = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bits);
  const bool number = error == std::errc() && end == value.data() + value.size();
  const bool affine = usual.mode == MlxFormat::Mode::kAffine;
  rule.format =
      number ? mlx_format_of("affine", bits, affine ? usual.group : 0) : mlx_format_of(value, 0, 0);
  return rule;
}

FolderOptions options_of(const ConvertRequest& request, FolderKind kind) {
  const FolderFlags& flags = request.folder;
  FolderOptions options{.kind = kind};
  if (!flags.dtype.empty()) options.dtype = parse_dtype(flags.dtype);
  options.shard_bytes = parse_size("--shard-size", flags.shard_size);
  if (!flags.quantize) return options;
  options.quantize.emplace();
  options.quantize->format = mlx_format_of(flags.mode, flags.bits, flags.group);
  for (const std::string& rule : flags.rules)
    options.quantize->rules.push_back(parse_rule(rule, options.quantize->format));
  return options;
}

std::string type_name(const FolderPlan& plan, size_t i) {
  const auto& format = plan.mlx.formats[i];
  if (!format) return std::string(info(plan.dtype).name);
  return fmt::format("{} {}/{}", mlx_mode_name(format->mode), format->bits, format->group);
}

// Reports matrices that -q could not quantise.
void note_what_stays_float(const FolderPlan& plan) {
  const std::vector<std::string>& misfits = plan.mlx.misfits;
  const bool nothing = plan.mlx.quantization.is_null();
  if (misfits.empty() && !nothing) return;
  std::string text =
      nothing ? "note: nothing is quantised" : "note: not all matrices are quantised";
  if (!misfits.empty())
    text +=
        fmt::format(": the rows of {} {} are not whole groups, first those of {}", misfits.size(),
                    misfits.size() == 1 ? "matrix" : "matrices", escaped(misfits.front()));
  write_error(text + "\n");
}

void report(const ConvertRequest& request, const FolderPlan& plan, double seconds) {
  Output& out = standard_output();
  size_t bytes = 0;
  Json list = Json::array();
  for (size_t i = 0; i < plan.tensors.tensors.size(); ++i) {
    const TensorView& tensor = plan.tensors.tensors[i].view;
    bytes += planned_bytes(plan, i);
    list.push_back({{"name", tensor.name},
                    {"shape", tensor.shape},
                    {"from", info(tensor.dtype).name},
                    {"to", type_name(plan, i)},
                    {"bytes", planned_bytes(plan, i)}});
  }
  if (request.common.json) {
    out.json({{"type", plan.type->type},
              {"after", bytes},
              {"seconds", seconds},
              {"left_out", plan.tensors.left_out},
              {"quantization", plan.mlx.quantization},
              {"not_quantized", plan.mlx.misfits},
              {"tensors", list}});
    return;
  }
  if (request.dry)
    for (const Json& tensor : list)
      out.line(fmt::format("{:56} {:>8} {:>14} {:>10}", escaped(tensor["name"].string()),
                           tensor["from"].string(), tensor["to"].string(),
                           human_bytes(tensor["bytes"].get<double>())));
  out.line(fmt::format("{}: {} in {} tensors", plan.type->type,
                       human_bytes(static_cast<double>(bytes)), list.size()) +
           (request.dry ? "" : fmt::format(" in {:.2f} s", seconds)));
  if (!plan.tensors.left_out.empty())
    out.line(fmt::format("left out: {} tensors of other parts", plan.tensors.left_out.size()));
}

void convert(const ConvertRequest& request, FolderKind kind) {
  const double start = seconds_now();
  if (!request.dry) folder_to_write(request.out);
  FolderOptions options = options_of(request, kind);
  const ModelFile file = open_model(request.in);
  const FolderPlan plan = plan_folder(file, options);
  if (!request.dry) {
    ThreadPool pool(request.common.threads);
    Writing writing("converting");
    options.progress = writing.progress();
    write_folder(file, plan, request.out, pool, options);
    writing.clear();
    if (file.container == Container::kGguf && !has_tokenizer(file))
      write_error(
          fmt::format("note: {} has no tokenizer, so the folder has none\n", escaped(file.path)));
  }
  if (request.folder.quantize) note_what_stays_float(plan);
  report(request, plan, seconds_now() - start);
}

}  // namespace

uint64_t parse_size(const std::string& flag, const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.size() > 1 && unit.ends_with('B')) unit.remove_suffix(1);
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"K", 1'000}, {"M", 1'000'000}, {"G", 1'000'000'000}};
  for (const auto& [name, factor] : kUnits)
    if (error == std::errc() && unit == name && number > 0 && number < 1'000'000)
      return number * factor;
  throw Misuse(flag, fmt::format("found '{}', expected a size such as 5G or 500M", text));
}

void FolderFlags::add(Arguments& app) {
  app.option("--dtype", dtype,
             "hf, mlx: float32, float16 or bfloat16 for unquantised tensors [the input's]")
      .type_name("TYPE")
      .choices({"float32", "float16", "bfloat16"});
  app.option("--shard-size", shard_size, "hf, mlx: maximum size of a safetensors file")
      .type_name("SIZE")
      .show_default();
  const Option quantise = app.flag("-q,--quantize", quantize, "mlx: quantise the matrices");
  app.option("--bits,--q-bits", bits, "mlx: bits of a weight: 2, 3, 4, 5, 6 or 8 [4]")
      .type_name("N")
      .whole_number(2, 8)
      .needs(quantise);
  app.option("--group-size,--q-group-size", group,
             "mlx: weights that share a scale: 32, 64 or 128 [64]")
      .type_name("N")
      .whole_number(16, 128)
      .needs(quantise);
  app.option("--mode,--q-mode", mode, "mlx: affine, mxfp4, mxfp8 or nvfp4")
      .type_name("MODE")
      .choices({"affine", "mxfp4", "mxfp8", "nvfp4"})
      .needs(quantise)
      .show_default();
  app.option("--rule", rules,
             "mlx: bits, mode or 'none' for layers that match REGEX; the first match counts")
      .type_name("REGEX=BITS")
      .needs(quantise);
}

void convert_to_hugging_face(const ConvertRequest& request) {
  convert(request, FolderKind::kHuggingFace);
}
void convert_to_mlx(const ConvertRequest& request) { convert(request, FolderKind::kMlx); }

}  // namespace veery::cli
