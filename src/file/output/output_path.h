// output_path.h: checks where files and folders may be written, and protects inputs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// Treatment of a regular file that already has the name of an output.
enum class Existing : uint8_t { kRefuse, kReplace };

struct OutputRules {
  Existing existing = Existing::kReplace;
  /// Input files, and folders whose files are inputs. They are identified by device and inode and
  /// never replaced.
  std::vector<std::string> inputs;
  /// Receives the names of replaced files; may be nullptr.
  std::vector<std::string>* replaced = nullptr;
};

/// Returns the paths that a model is read from: its own and those of all mapped files.
std::vector<std::string> inputs_of(const ModelFile& file);

/// Returns the path that a file written as `path` gets: symbolic links are followed (even dangling
/// ones), so they are kept. Throws kInput naming what exists there if it is not a regular file, is
/// an input, or must be kept according to the rules; kIo if its folder is not writable.
std::string file_to_write(const std::string& path, const OutputRules& rules);

/// As file_to_write() for a new folder: nothing may exist at `path`.
std::string folder_to_write(const std::string& path);

}  // namespace veery
