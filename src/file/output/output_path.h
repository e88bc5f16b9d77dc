// output_path.h: where a file or a folder may be written, and what is never replaced.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// What becomes of a regular file that has the name of an output already.
enum class Existing : uint8_t { kRefuse, kReplace };

struct OutputRules {
  Existing existing = Existing::kReplace;
  /// Files, and folders whose files, are read: by device and inode they are never replaced.
  std::vector<std::string> inputs;
  /// Gets the names of files that were replaced, when they were; null: nobody asks.
  std::vector<std::string>* replaced = nullptr;
};

/// What a model is read from: its path, and all files that it maps.
std::vector<std::string> inputs_of(const ModelFile& file);

/// The name that a file written as `path` gets: symbolic links are followed, also those that lead
/// to nothing, so that they stay links. Throws kInput, naming what is there, if that is no regular
/// file, an input, or a file that the rules keep; kIo if its folder cannot be written to.
std::string file_to_write(const std::string& path, const OutputRules& rules);

/// The same for a new folder: nothing may be there.
std::string folder_to_write(const std::string& path);

}  // namespace veery
