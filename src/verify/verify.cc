#include "verify/verify.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "file/folder/find_model.h"
#include "import/open_model.h"
#include "import/read_config.h"
#include "import/unused_tensors.h"
#include "verify/diagnose.h"
#include "verify/parts.h"
#include "verify/reference.h"

namespace veery {
namespace {

class Verifier {
 public:
  Verifier(const std::string& path, const VerifyOptions& options)
      : path_(find_model(path)), options_(options), report_(options.on_check) {}

  Report run() {
    if (!options_.record.empty()) file_to_write(options_.record, record_rules());
    std::vector<ReferenceSet> reference;
    ReferenceVocabulary vocabulary;
    if (!options_.reference.empty()) {
      reference = read_reference(options_.reference);
      vocabulary = read_reference_vocabulary(options_.reference);
    }
    const bool usable = check_files();
    check_text(vocabulary);
    if (usable) {
      check_model();
      if (!reference.empty()) check_reference(reference);
    } else {
      report_.skip("runs", "the model cannot be loaded");
    }
    if (!options_.record.empty()) record();
    return std::move(report_);
  }

 private:
  void progress(const std::string& what, double done, double all) const {
    if (options_.progress) options_.progress(what, done, all);
  }

  // Runs `step`; turns an error that the model causes into a failed check.
  template <typename Step>
  bool guarded(const char* name, const char* hint, const Step& step) {
    try {
      file_.checked(step);
      return true;
    } catch (const Error& error) {
      const ErrorKind kind = error.kind();
      if (kind == ErrorKind::kBug || kind == ErrorKind::kNotFound || kind == ErrorKind::kIo) throw;
      report_.add({name, CheckState::kFail, error.what(), "", hint});
      return false;
    }
  }

  bool check_files() {
    if (!guarded("container", "", [&] { file_ = open_model(path_); })) return false;
    report_.ok("container", fmt::format("{} tensors, {}", file_.tensors.size(),
                                        file_.container == Container::kGguf ? "GGUF" : "a folder"));
    std::optional<TransformerConfig> config;
    if (!guarded("configuration", "", [&] { config = read_config(file_); })) return false;
    listens_ = config->source.layers > 0;
    rows_ = config->vocab;
    quantised_ = std::ranges::any_of(
        file_.tensors, [](const TensorView& tensor) { return info(tensor.dtype).quantized; });
    return guarded("definition", "",
                   [&] {
                     const Graph graph = trace_definition(file_, *config);
                     check_config(file_, *config, report_);
                     check_tensors(file_, *config, graph, report_);
                     ThreadPool pool(options_.threads);
                     check_values(file_, *config, graph, pool, report_, options_.progress);
                   }) &&
           report_.sound();
  }

  void check_text(const ReferenceVocabulary& vocabulary) {
    std::shared_ptr<const Tokenizer> tokenizer;
    const bool there = guarded("tokenizer", "", [&] { tokenizer = load_tokenizer(path_); });
    if (!there) return report_.skip("chat template", "the model has no tokenizer");
    guarded("tokenizer", "", [&] { check_tokenizer(*tokenizer, rows_, report_); });
    guarded("reference texts", "", [&] { check_vocabulary(*tokenizer, vocabulary, report_); });
    guarded("chat template", "",
            [&] { check_template(*tokenizer, chat_template_source(path_), report_); });
  }

  LoadOptions load_options(bool exact) const {
    return {.threads = options_.threads,
            .exact = exact,
            .entry = listens_ ? transcribe_entry : nullptr,
            .progress = [this](size_t done, size_t all) {
              progress("loading", static_cast<double>(done), static_cast<double>(all));
            }};
  }

  void check_model() {
    guarded("runs", "", [&] {
      Model model(path_, load_options(false));
      progress("running", 0, 1);
      check_runs(model, report_);
    });
  }

  static size_t longest(std::span<const ReferenceSet> sets) {
    size_t most = 0;
    for (const ReferenceSet& set : sets)
      for (const ReferenceText& text : set.texts)
        most = std::max(most, text.ids.size() + text.greedy.size());
    return most;
  }

  void check_reference(std::span<const ReferenceSet> sets) {
    guarded("reference", "it was made with another model", [&] {
      LoadOptions load = load_options(true);
      constexpr size_t kUsual = 4096;
      if (longest(sets) > kUsual) load.context = static_cast<int32_t>(longest(sets));
      Model model(path_, load);
      progress("comparing", 0, 1);
      const Difference difference = compare(model, sets);
      if (difference.largest > options_.tolerance) return explain(model, sets, difference);
      report_.ok("reference", fmt::format("logits within {:.1e} ({} values{})", difference.largest,
                                          difference.values, set_text(difference)));
      for (const ReferenceSet& set : sets)
        if (set.name == difference.set) check_greedy(model, set);
    });
  }

  static std::string set_text(const Difference& difference) {
    return difference.set.empty() ? "" : ", " + difference.set;
  }

  void check_greedy(Model& model, const ReferenceSet& set) {
    const std::string other = other_greedy(model, set);
    if (other.empty())
      report_.ok("greedy text", "as recorded");
    else
      report_.add({"greedy text", CheckState::kFail, other, "the recorded text",
                   "the logits of the prompts are right, so this is a bug in veery or in "
                   "the reference"});
  }

  // Describes the difference, and which changes would remove it.
  void explain(const Model& model, std::span<const ReferenceSet> sets, const Difference& far) {
    const auto count = static_cast<double>(hypotheses(model, sets, far).size());
    const Diagnosis diagnosis = diagnose(model, sets, options_.tolerance, [&](size_t tried) {
      progress("diagnosing", std::min(static_cast<double>(tried), count), count);
    });
    Check check{.name = "reference", .state = CheckState::kFail};
    check.found = fmt::format(
        "logits differ by {:.2g} (relative), most after token {} of text {}: ", far.largest,
        far.position, far.text);
    check.found +=
        far.id < 0
            ? fmt::format("the log-sum-exp is {:.5g}, not {:.5g}", far.found, far.expected)
            : fmt::format("that of id {} is {:.5g}, not {:.5g}", far.id, far.found, far.expected);
    if (far.bests > 0)
      check.found += fmt::format("; {} of {} best tokens differ", far.other_bests, far.bests);
    check.expected = fmt::format("within {:.1g}", options_.tolerance);
    check.hint = hint(diagnosis);
    // A reference from the weights before quantisation is expected to differ by the quantisation
    // error.
    constexpr double kQuantised = 0.25;
    const bool as_quantised = quantised_ && diagnosis.changes.empty() && far.rms < kQuantised / 4 &&
                              far.other_bests * 3 <= far.bests;
    if (as_quantised && far.largest < kQuantised) {
      check.state = CheckState::kWarn;
      check.hint = "within the quantisation error relative to a float reference; " + check.hint;
    }
    report_.add(std::move(check));
  }

  static std::string hint(const Diagnosis& diagnosis) {
    if (diagnosis.changes.empty())
      return fmt::format("none of {} tried changes explains the difference", diagnosis.tried);
    std::string defects;
    std::string when;
    for (const Hypothesis& change : diagnosis.changes) {
      defects += (defects.empty() ? "" : ", ") + change.defect;
      when += (when.empty() ? "" : " and ") + change.when;
    }
    if (diagnosis.explained)
      return fmt::format("{}: the reference is matched ({:.1e}) when {}", defects, diagnosis.after,
                         when);
    return fmt::format("perhaps {}: the difference falls from {:.2g} to {:.2g} when {}", defects,
                       diagnosis.before, diagnosis.after, when);
  }

  OutputRules record_rules() const {
    OutputRules rules{options_.existing, inputs_of(file_), options_.replaced};
    for (const std::string& path : {path_, options_.reference})
      if (!path.empty()) rules.inputs.push_back(path);
    return rules;
  }

  void record() {
    if (!report_.sound())
      throw Error(ErrorKind::kInput, "{}: not recorded, because the model has defects",
                  options_.record);
    Model model(path_, load_options(true));
    write_reference(model, options_.record, record_rules());
    report_.ok("recorded", options_.record);
  }

  const std::string path_;
  const VerifyOptions& options_;
  Report report_;
  ModelFile file_;
  bool listens_ = false;  ///< the decoder attends to an audio encoder
  int64_t rows_ = 0;
  bool quantised_ = false;
};

}  // namespace

Report verify(const std::string& path, const VerifyOptions& options) {
  return Verifier(path, options).run();
}

}  // namespace veery
