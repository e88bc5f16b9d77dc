// quantize.cc: `veery quantize`: writes a model with quantised weights.
#include "convert/quantize.h"

#include <utility>

#include "base/clock.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "cli/output/interruption.h"
#include "cli/output/tensor_table.h"
#include "cli/verbs/verbs.h"
#include "convert/as_gguf.h"
#include "dtype/dtype.h"
#include "text/common/regex.h"

namespace veery::cli {
namespace {

DType parse_type(const std::string& name, const std::string& flag) {
  const auto type = dtype_from_name(name);
  if (!type || !info(*type).encodable)
    throw Misuse(
        flag,
        fmt::format("'{}' is not a type to quantise to, expected one such as q8_0 or q4_K", name));
  return *type;
}

// Returns the names that parse_type() accepts.
std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < static_cast<size_t>(DType::kCount); ++i)
    if (const DTypeInfo& row = info(static_cast<DType>(i)); row.encodable)
      names.emplace_back(row.name);
  return names;
}

std::vector<TensorRule> parse_rules(const std::vector<std::string>& texts) {
  std::vector<TensorRule> rules;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw Misuse("--tensor-type", fmt::format("found '{}', expected REGEX=TYPE", text));
    const std::string pattern = text.substr(0, equals);
    read_value("--tensor-type", [&] { Regex{pattern}; });
    rules.push_back({pattern, parse_type(text.substr(equals + 1), "--tensor-type")});
  }
  return rules;
}

struct Flags {
  std::string in, out, type;
  std::string imatrix, output, embedding;
  std::vector<std::string> rules;
  bool pure = false, dry = false, requantize = false;
  OutputFlags output_flags;
  ModelArguments common;
};

void read_flags(Flags& flags, std::vector<std::string> arguments) {
  std::string types;
  for (const QuantMix& mix : quant_mixes())
    types += fmt::format("\n  {:10} {}", mix.name, mix.summary);
  Arguments app("quantize", "Writes a GGUF file with quantised weights. TYPE is one of" + types,
                "  veery quantize model-f16.gguf model-q4.gguf Q4_K_M --imatrix imatrix.gguf\n"
                "  veery quantize model-f16.gguf out.gguf Q4_K_M --tensor-type 'ffn_down=q6_K'");
  app.option("IN", flags.in, "GGUF file or model folder to read").type_name("").models().required();
  app.option("OUT", flags.out, "File to write; optional with --dry-run")
      .type_name("")
      .files({"gguf"})
      .required();
  app.option("TYPE", flags.type, "Type or mix").type_name("").choices(quant_mix_names());
  app.option("--imatrix", flags.imatrix, "Importance matrix (GGUF or .dat), as of 'veery imatrix'")
      .type_name("FILE")
      .files({"gguf", "dat"});
  app.option("--tensor-type", flags.rules,
             "Type of tensors whose names match REGEX; the first match counts")
      .type_name("REGEX=TYPE");
  app.option("--output-tensor-type", flags.output, "Type of the output head [by TYPE]")
      .type_name("TYPE")
      .choices(type_names());
  app.option("--token-embedding-type", flags.embedding, "Type of the token embedding [by TYPE]")
      .type_name("TYPE")
      .choices(type_names());
  app.flag("--pure", flags.pure, "Use TYPE for all matrices instead of a mix");
  app.flag("--allow-requantize", flags.requantize,
           "Also quantise weights that are quantised already");
  app.flag("--dry-run", flags.dry, "Only print the type and size that each tensor would get");
  flags.output_flags.add(app, "Replace OUT if it exists");
  flags.common.add_threads(app);
  flags.common.add_json(app, "Print a JSON object: bytes before and after, tokenizer, tensors");
  app.read(std::move(arguments));
  if (!flags.type.empty()) return;
  if (!flags.dry) throw Misuse("found two arguments, expected IN OUT TYPE");
  flags.type = std::exchange(flags.out, "");
}

// Returns the paths of the files that it replaced.
std::vector<std::string> write(const Flags& flags, const ModelFile& file,
                               const std::vector<TensorPlan>& plans, const QuantMix& mix,
                               const ImportanceMatrix* importance) {
  std::vector<std::string> replaced;
  ThreadPool pool(flags.common.threads);
  Writing writing("quantising");
  QuantizeOptions options;
  options.importance = importance;
  options.requantize = flags.requantize;
  options.existing = flags.output_flags.existing();
  options.replaced = &replaced;
  options.progress = writing.progress();
  write_quantized(file, plans, quantized_metadata(file, mix, importance, flags.imatrix), flags.out,
                  pool, options);
  return replaced;
}

}  // namespace

void quantize_verb(std::vector<std::string> arguments) {
  Flags flags;
  read_flags(flags, std::move(arguments));
  QuantMixOptions options;
  options.pure = flags.pure;
  options.importance = !flags.imatrix.empty();
  options.rules = parse_rules(flags.rules);
  if (!flags.output.empty()) options.output = parse_type(flags.output, "--output-tensor-type");
  if (!flags.embedding.empty())
    options.embedding = parse_type(flags.embedding, "--token-embedding-type");
  const double start = seconds_now();
  const QuantMix& mix =
      read_value("TYPE", [&]() -> const QuantMix& { return find_quant_mix(flags.type); });
  if (!flags.dry) flags.output_flags.check(flags.out, {flags.in, flags.imatrix});
  std::optional<ImportanceMatrix> importance;
  if (options.importance) importance = read_imatrix(flags.imatrix);
  const ModelFile file = open_as_gguf(flags.in);
  const std::vector<TensorPlan> plans = plan_types(file, mix, options);
  const ImportanceMatrix* matrix = importance ? &*importance : nullptr;
  warn_of_missing_importance(file, plans, matrix);
  std::vector<std::string> replaced;
  if (!flags.dry) replaced = write(flags, file, plans, mix, matrix);
  report_written(file, plans,
                 {.seconds = seconds_now() - start,
                  .dry = flags.dry,
                  .json = flags.common.json,
                  .replaced = std::move(replaced)});
}

}  // namespace veery::cli
