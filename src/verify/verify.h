// verify.h: is a model whole and right? Files, weights, tokenizer, template, runs, and recorded
// logits of another implementation.
#pragma once
#include <functional>
#include <string>

#include "file/output/output_path.h"
#include "verify/report.h"

namespace veery {

struct VerifyOptions {
  int threads = 0;                         ///< 0: the cores this process may use
  std::string reference;                   ///< a file that read_reference() takes; empty: none
  std::string record;                      ///< where to write what this model gives; empty: nowhere
  Existing existing = Existing::kReplace;  ///< a file that has the name of the record
  std::vector<std::string>* replaced = nullptr;  ///< gets its name; null: nobody asks
  /// Largest difference of a logit from the reference, relative to the largest logit of its text.
  double tolerance = 2e-4;
  Report::OnCheck on_check;
  /// Called with what is being done and how far it is.
  std::function<void(const std::string& what, double done, double all)> progress;
};

/// All checks that `path`, a GGUF file or a folder, allows; a failed one ends those that rest on
/// it. Throws kNotFound or kIo if the model cannot be read at all, and what read_reference()
/// throws; kInput if a reference of a model with defects is to be recorded, and, before anything is
/// checked, where file_to_write() throws it for the record.
Report verify(const std::string& path, const VerifyOptions& options = {});

}  // namespace veery
