// batch.cc: `veery batch`: answers a file of requests.
#include "serve/batch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "cli/flags/scheduler_flags.h"
#include "cli/hub/fetch.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/verbs/verbs.h"
#include "file/output/output_path.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments model;
  SchedulerFlags scheduler;
  OutputFlags output;
  std::string in, out, defaults;
  bool resume = false, quiet = false;
  FetchFlags fetch;
};

// Assigns INPUT and OUTPUT to the flags that are not given.
void take_files(Flags& flags, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (file.empty()) throw Misuse("empty argument, expected a path");
    std::string* place = flags.in.empty() ? &flags.in : flags.out.empty() ? &flags.out : nullptr;
    if (place == nullptr)
      throw Misuse(fmt::format("unknown argument '{}': input and output are already {} and {}",
                               file, flags.in, flags.out));
    *place = file;
  }
  if (flags.in.empty())
    throw Misuse("missing --input, expected a file of requests or - for standard input");
}

Flags read_flags(std::vector<std::string> arguments) {
  Flags flags;
  Arguments app("batch",
                "Answers a file of requests, several at a time, and writes one line for each.\n\nA "
                "line is a JSON string (a user message) or a request of OpenAI's Batch "
                "API:\n{\"custom_id\", \"url\", \"body\"}.",
                "  veery batch model.gguf questions.jsonl answers.jsonl --defaults "
                "'{\"max_tokens\":200}'\n"
                "  veery batch model.gguf -i questions.jsonl -o answers.jsonl --resume");
  flags.model.add_path(app);
  flags.fetch.add(app);
  std::vector<std::string> files;
  app.take_words("INPUT", files, "Same as -i").files({"jsonl"});
  app.take_words("OUTPUT", files, "Same as -o").files({"jsonl"});
  app.option("-i,--input", flags.in, "Requests, one JSON value per line; -: standard input")
      .type_name("FILE")
      .files({"jsonl"});
  app.option("-o,--output", flags.out,
             "Write the answers to FILE, in the order of the requests; -: standard output [-]")
      .type_name("FILE")
      .files({"jsonl"});
  app.option("--defaults", flags.defaults, "JSON object: default fields of the request bodies")
      .type_name("JSON");
  app.flag("--resume", flags.resume,
           "Keep the answers in the output file and answer only the other requests");
  flags.output.add(app, "Replace the output file if it exists");
  flags.scheduler.add(app);
  flags.model.add_chat_template(app);
  flags.model.add_context(app);
  flags.model.add_threads(app);
  flags.model.add_exact(app);
  flags.model.add_cache_types(app);
  flags.model.add_device(app);
  flags.model.add_gpu_layers(app);
  app.flag("-q,--quiet", flags.quiet, "Print no summary on standard error");
  app.read(std::move(arguments));
  flags.scheduler.note_given(app);
  take_files(flags, files);
  if (flags.resume && flags.output.force) throw Misuse("--resume", "excludes --force");
  if (flags.out == "-") flags.out.clear();
  if (flags.resume && flags.out.empty())
    throw Misuse("--resume", "needs --output FILE: standard output cannot be resumed");
  return flags;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

/// Writes each answer at once, so that none is lost if the program ends early.
class AnswerFile {
 public:
  explicit AnswerFile(const Flags& flags)
      : path_(flags.out), held_(answers_of(flags)), fd_(open(flags)) {
    if (path_.empty()) return;
    // A truncated last line is removed and answered again.
    held_.resize(held_.find_last_of('\n') + 1);
    if (::ftruncate(fd_.get(), static_cast<off_t>(held_.size())) != 0 ||
        ::lseek(fd_.get(), 0, SEEK_END) < 0)
      fail();
  }

  std::vector<std::string_view> answered() const { return lines_of(held_); }

  void write(std::string line) {
    line += '\n';
    if (path_.empty()) {
      standard_output().write(line);
      standard_output().flush();
      return;
    }
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t count = ::write(fd_.get(), rest.data(), rest.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail();
      rest.remove_prefix(static_cast<size_t>(count));
    }
  }

 private:
  static std::string answers_of(const Flags& flags) {
    const bool there = flags.resume && path_exists(flags.out);
    return there ? read_text(flags.out, kTextFile) : std::string();
  }

  Descriptor open(const Flags& flags) const {
    if (path_.empty()) return Descriptor(-1);
    const bool kept = !flags.resume && !flags.output.force;
    const OutputRules rules{
        kept ? Existing::kRefuse : Existing::kReplace, {flags.in, flags.model.path}, nullptr};
    const std::string target = file_to_write(path_, rules);
    Descriptor fd(::open(target.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (fd.get() < 0) fail();
    return fd;
  }

  [[noreturn]] void fail() const {
    throw Error(ErrorKind::kIo, "{}: cannot be written: {}", shown_path(path_),
                std::strerror(errno));
  }

  std::string path_;  ///< "": standard output
  std::string held_;
  Descriptor fd_;
};

// Throws unless the existing answers belong to the first requests.
void check_answered(const std::vector<std::string_view>& answered,
                    const std::vector<std::string_view>& lines, const Flags& flags) {
  if (answered.size() > lines.size())
    throw Error(ErrorKind::kInput, "{}: found {} answers, but {} has {} requests", flags.out,
                answered.size(), flags.in, lines.size());
  for (size_t i = 0; i < answered.size(); ++i) {
    const std::string wanted = serve::custom_id_of(lines[i]);
    const std::string found = serve::custom_id_of(answered[i]);
    if (found != wanted)
      throw Error(ErrorKind::kInput,
                  "{}, line {}: found the answer to '{}', expected that to '{}' of {}", flags.out,
                  i + 1, printable(found, 100), printable(wanted, 100), flags.in);
  }
}

std::string summary(const serve::BatchCounts& counts, size_t before, const Scheduler* scheduler,
                    double seconds) {
  std::string text = fmt::format("[{} answered, {} errors", counts.requests, counts.errors);
  if (before > 0) text += fmt::format(", {} already there", before);
  if (scheduler != nullptr) {
    const SchedulerCounts c = scheduler->counts();
    text += fmt::format(" | prompts {} tokens (+{} cached) | answers {} tokens, {:.1f} tok/s",
                        c.prompt_tokens, c.reused_tokens, c.made_tokens,
                        seconds > 0 ? static_cast<double>(c.made_tokens) / seconds : 0);
  }
  return text + fmt::format(" | {:.1f} s]\n", seconds);
}

}  // namespace

void batch_verb(std::vector<std::string> arguments) {
  const Flags flags = read_flags(std::move(arguments));
  serve::BatchOptions options{.workers = flags.scheduler.slots()};
  if (!flags.defaults.empty()) {
    options.defaults =
        read_value("--defaults", [&] { return parse_json(flags.defaults, "the object"); });
    if (!options.defaults.is_object())
      throw Misuse("--defaults",
                   fmt::format("is a JSON {}, expected an object", options.defaults.type_name()));
  }
  const std::string text = flags.in == "-" ? read_text(STDIN_FILENO, "standard input", kTextFile)
                                           : read_text(flags.in, kTextFile);
  const std::vector<std::string_view> lines = lines_of(text);
  AnswerFile file(flags);
  const std::vector<std::string_view> answered = file.answered();
  check_answered(answered, lines, flags);
  serve::Context context;
  {
    fetch_if_missing(flags.model.path, flags.fetch);
    Progress bar("loading");
    LoadOptions load = flags.model.load_options(bar, {});
    const auto progress = std::exchange(load.progress, nullptr);
    context.models.add({"model", flags.model.path, load, flags.scheduler.options(flags.model)});
    context.models.find("model", {}, progress);
  }
  context.ready = true;
  serve::Service service(context, {});
  Progress bar("answering");
  size_t done = answered.size();
  const double start = seconds_now();
  const auto take = [&](std::string_view line) {
    file.write(std::string(line));
    bar.show(static_cast<double>(++done), static_cast<double>(lines.size()),
             fmt::format("{} of {}", done, lines.size()));
  };
  const serve::BatchCounts counts =
      answer_batch(service, std::span(lines).subspan(answered.size()),
                   static_cast<int64_t>(answered.size()) + 1, options, take);
  bar.clear();
  if (!flags.quiet)
    write_error(summary(counts, answered.size(), context.models.find("model")->scheduler(),
                        seconds_now() - start));
}

}  // namespace veery::cli
