// imatrix.cc: `veery imatrix`: computes an importance matrix.
#include "file/gguf/imatrix.h"

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "chat/chat.h"
#include "cli/args/arguments.h"
#include "cli/args/input.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "cli/args/token_ids.h"
#include "cli/output/interruption.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_table.h"
#include "cli/verbs/verbs.h"
#include "convert/as_gguf.h"
#include "tasks/inspect/importance.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments common;
  std::string text, out = "imatrix.gguf";
  int64_t chunks = -1;
  OutputFlags output;
};

void read_flags(Flags& flags, std::vector<std::string> arguments) {
  flags.common.context = 512;
  Arguments app("imatrix",
                "Computes an importance matrix for 'veery quantize --imatrix': how strongly a text "
                "activates each column of the weight matrices.",
                "  veery imatrix model-f16.gguf -f text.txt -o imatrix.gguf\n"
                "  veery quantize model-f16.gguf model-iq2.gguf IQ2_XS --imatrix imatrix.gguf");
  flags.common.add_path(app);
  app.option("-f,--file", flags.text, "Text; -: standard input").type_name("FILE").required();
  app.option("-o,--output,--output-file", flags.out, "GGUF file to write")
      .type_name("FILE")
      .files({"gguf"})
      .show_default();
  app.option("-c,--ctx-size", flags.common.context, "Tokens of a window")
      .type_name("N")
      .whole_number(1, 1 << 30)
      .show_default();
  app.option("--chunks", flags.chunks, "Maximum number of windows; -1: the whole text")
      .type_name("N")
      .whole_number(-1, 1 << 30)
      .show_default();
  flags.output.add(app, "Replace the output file if it exists");
  flags.common.add_threads(app);
  flags.common.add_json(app, "Print a JSON object: tensors, windows, tokens, seconds, replaced");
  app.read(std::move(arguments));
  flags.common.exact = true;  // activations in f32, not quantised to int8
}

// Returns the name under which the sums of a tensor were collected. Parts of a joint projection
// have the same input, so the sums of the first part are those of the joint tensor.
std::string collected_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kJoint[] = {
      {"attn_qkv.weight", "attn_q.weight"},
      {"ffn_up.weight", "ffn_gate.weight"},
      {"ffn_gate_up_exps.weight", "ffn_gate_exps.weight"}};
  for (const auto& [joint, part] : kJoint)
    if (name.ends_with(joint))
      return name.substr(0, name.size() - joint.size()) + std::string(part);
  return name;
}

// Returns the sums by the names of the tensors in GGUF files, as `veery quantize` reads them.
std::map<std::string, ImportanceSums> by_file_name(
    const std::string& path, const std::map<std::string, ImportanceSums>& collected) {
  std::map<std::string, ImportanceSums> named;
  for (const TensorView& tensor : open_as_gguf(path).tensors) {
    auto found = collected.find(tensor.name);
    if (found == collected.end()) found = collected.find(collected_name(tensor.name));
    if (found == collected.end() || tensor.shape.size() < 2) continue;
    const auto columns = static_cast<size_t>(tensor.shape.back());
    if (found->second.squares.size() == columns * found->second.counts.size())
      named.emplace(tensor.name, found->second);
  }
  return named;
}

std::vector<int32_t> window_at(const Model& model, std::span<const int32_t> ids, size_t begin,
                               size_t size) {
  const auto part = ids.subspan(begin, size);
  std::vector<int32_t> window(part.begin(), part.end());
  const Tokenizer::Special& special = model.tokenizer().special();
  if (special.add_bos && special.bos >= 0) window[0] = special.bos;
  return window;
}

}  // namespace

void imatrix_verb(std::vector<std::string> arguments) {
  Flags flags;
  read_flags(flags, std::move(arguments));
  const double start = seconds_now();
  flags.output.check(flags.out, {flags.common.path, flags.text == "-" ? "" : flags.text});
  const std::string text = read_file(flags.text);
  Model model = flags.common.load();
  LostBytes lost;
  const std::vector<int32_t> ids = encode_prompt(model.tokenizer(), text, &lost);
  warn_lost(lost, "the text");
  const size_t size = std::min(ids.size(), static_cast<size_t>(model.options().context));
  size_t windows = size == 0 ? 0 : ids.size() / size;
  if (flags.chunks >= 0) windows = std::min(windows, static_cast<size_t>(flags.chunks));
  if (windows == 0)
    throw Error(ErrorKind::kInput, "{}: found {} tokens and 0 windows, expected 1 or more",
                flags.text == "-" ? "standard input" : flags.text, ids.size());
  ImportanceCollector collector(model);
  {
    Progress bar("measuring");
    for (size_t i = 0; i < windows; ++i) {
      collector.read(window_at(model, ids, i * size, size));
      bar.show(static_cast<double>(i + 1), static_cast<double>(windows),
               fmt::format("window {} of {}", i + 1, windows));
    }
  }
  const std::map<std::string, ImportanceSums> sums =
      by_file_name(flags.common.path, collector.sums());
  std::vector<std::string> replaced;
  std::optional<Interruption> interruption(std::in_place);
  OutputRules rules{flags.output.existing(), inputs_of(model.file()), &replaced};
  write_imatrix(sums,
                {.dataset = flags.text,
                 .chunks = static_cast<int64_t>(windows),
                 .chunk_size = static_cast<int64_t>(size)},
                flags.out, rules);
  const double seconds = seconds_now() - start;
  if (flags.common.json)
    return standard_output().json({{"tensors", sums.size()},
                                   {"windows", windows},
                                   {"tokens", windows * size},
                                   {"seconds", seconds},
                                   {"replaced", replaced}});
  standard_output().line(fmt::format("{}: {} tensors, {} windows of {} tokens in {:.2f} s",
                                     flags.out, sums.size(), windows, size, seconds));
  report_replaced(replaced);
}

}  // namespace veery::cli
