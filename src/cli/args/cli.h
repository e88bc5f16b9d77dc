// cli.h: the verbs, and what they share.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/args/arguments.h"
#include "dtype/dtype.h"

namespace veery {
class Model;
struct LoadOptions;
struct LostBytes;
}  // namespace veery

namespace veery::cli {
class Progress;

/// A verb gets what follows it on the command line. Throws Misuse, Status, or Error for a failure.
using VerbFunction = void (*)(std::vector<std::string> arguments);
struct Verb {
  std::string_view name;
  std::string_view summary;
  VerbFunction run;
};

void run_verb(std::vector<std::string> arguments);
void tokenize_verb(std::vector<std::string> arguments);
void template_verb(std::vector<std::string> arguments);
void logits_verb(std::vector<std::string> arguments);
void embed_verb(std::vector<std::string> arguments);
void serve_verb(std::vector<std::string> arguments);
void batch_verb(std::vector<std::string> arguments);
void rerank_verb(std::vector<std::string> arguments);
void classify_verb(std::vector<std::string> arguments);
void transcribe_verb(std::vector<std::string> arguments);
void perplexity_verb(std::vector<std::string> arguments);
void bench_verb(std::vector<std::string> arguments);
void inspect_verb(std::vector<std::string> arguments);
void plan_verb(std::vector<std::string> arguments);
void convert_verb(std::vector<std::string> arguments);
void quantize_verb(std::vector<std::string> arguments);
void imatrix_verb(std::vector<std::string> arguments);
void pull_verb(std::vector<std::string> arguments);
void list_verb(std::vector<std::string> arguments);
void show_verb(std::vector<std::string> arguments);
void verify_verb(std::vector<std::string> arguments);
void completion_verb(std::vector<std::string> arguments);

/// All verbs, in the order of the help.
std::span<const Verb> verbs();

/// Flags that several verbs have.
struct ModelArguments {
  std::string path;
  int threads = 0;
  int32_t context = 0;
  bool exact = false;
  std::optional<DType> cache_keys, cache_values;
  std::string device = "cpu";
  int64_t device_memory = 0;  ///< MB; 0: all that the device has
  bool relaxed = false;       ///< make_cuda_backend()
  int32_t gpu_layers = -1;    ///< LoadOptions::backend_layers; -1: absent
  std::string chat_template, chat_template_file;
  bool parse_special = false;  ///< LoadOptions::parse_special
  bool json = false;

  void add_path(Arguments& app, bool required = true);
  void add_threads(Arguments& app);
  void add_context(Arguments& app);
  void add_exact(Arguments& app);
  void add_cache_types(Arguments& app);
  void add_device(Arguments& app);
  /// Where some layers may stay on the CPU: after add_device().
  void add_gpu_layers(Arguments& app);
  /// --chat-template, --chat-template-file and --parse-special.
  void add_chat_template(Arguments& app);
  /// Returns LoadOptions::chat_template as these flags set it. Throws Misuse if both are given.
  std::optional<std::string> chosen_template() const;
  void add_json(Arguments& app, const std::string& what);
  /// With a progress bar on standard error where that is a terminal.
  Model load() const;
  Model load(LoadOptions options) const;
  /// What the flags say, in place of what `options` has; `bar` has to last as long as the loading.
  LoadOptions load_options(Progress& bar, LoadOptions options) const;
};

/// The text that a verb works on.
struct TextArguments {
  std::optional<std::string> prompt, file;
  std::vector<std::string> words;  ///< after MODEL; joined by spaces they are another -p
  /// -p, -f and piped standard input together are one text. Otherwise one of them is.
  bool combined = false;

  struct Options {
    Option prompt, file;
  };
  /// `name`: of the words in the help. `what`: the help of -p.
  Options add(Arguments& app, const std::string& name, const std::string& what);
  /// Makes words the prompt, a lone "-" standard input. To be called after app.read(). Throws
  /// Misuse if one of `others` is given too, or -p, or, unless `combined`, -f.
  void join_words(const Arguments& app, std::initializer_list<const char*> others = {});
  bool given() const { return prompt || file; }
  /// Returns the prompt as it is, else the file or standard input with LF for CR LF. If `combined`,
  /// returns piped standard input, the file and the prompt, those that there are, with blank lines
  /// between them and without the newlines that end files. Throws as read_file().
  std::string read() const;
};

/// Says on standard error that bytes of `what` became no tokens.
void tell_lost(const LostBytes& lost, std::string_view what);
Json lost_json(const LostBytes& lost);

/// `count` ids to measure with, random but always the same: a model works harder on them than on
/// one id repeated.
std::vector<int32_t> any_tokens(const Model& model, size_t count);

/// Ids of "1,2,3". Throws Misuse naming `flag`.
std::vector<int32_t> parse_ids(const std::string& text, const std::string& flag);

/// Throws Misuse naming `flag` if an id is not one of the model's vocabulary.
void check_ids(const std::vector<int32_t>& ids, const Model& model, const std::string& flag);

/// The whole file or stream; "-": standard input. Throws kNotFound, kIo or kLimit.
std::string read_file(const std::string& path, const FileKind& kind = kTextFile);
std::string read_standard_input(const FileKind& kind = kTextFile);
/// Whether standard input is a file, or a pipe or socket that brings something or ends within a few
/// seconds. One that brings nothing is mentioned on standard error. Terminals and other devices,
/// /dev/null among them, are not read.
bool input_is_piped();

/// Highest resident set of this process so far, in bytes.
size_t peak_memory();
/// {"active_bytes", "peak_bytes", "cached_bytes"} of the device that a model is on; null: it has no
/// memory of its own.
Json device_memory(const Model& model);

}  // namespace veery::cli
