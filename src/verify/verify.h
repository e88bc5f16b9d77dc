// verify.h: checks whether a model is complete and correct: files, weights, tokenizer, template,
// runs, and recorded logits of another implementation.
#pragma once
#include <functional>
#include <string>

#include "file/output/output_path.h"
#include "verify/report.h"

namespace veery {

struct VerifyOptions {
  int threads = 0;                         ///< 0: all cores available to this process
  std::string reference;                   ///< a file for read_reference(); empty: none
  std::string record;                      ///< where to record this model's outputs; empty: nowhere
  Existing existing = Existing::kReplace;  ///< what happens to an existing file of that name
  std::vector<std::string>* replaced = nullptr;  ///< receives its name; may be nullptr
  /// Largest accepted difference of a logit from the reference, relative to the largest logit of
  /// its text.
  double tolerance = 2e-4;
  Report::OnCheck on_check;
  /// Called with the current task, the progress and the total.
  std::function<void(const std::string& what, double done, double all)> progress;
};

/// Runs all checks that `path`, a GGUF file or a folder, permits; checks that depend on a failed
/// one are skipped. Throws kNotFound or kIo if the model cannot be read at all, and as
/// read_reference() does. Throws kInput if the outputs of a defective model should be recorded, and
/// as file_to_write() does for the record, before any check.
Report verify(const std::string& path, const VerifyOptions& options = {});

}  // namespace veery
