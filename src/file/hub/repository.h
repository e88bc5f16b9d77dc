// repository.h: names of models on a hub, and which of a model's files a name means.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// With what the folders of models in Hugging Face's cache begin: models--ORG--NAME.
inline constexpr std::string_view kCacheFolderPrefix = "models--";

/// The parts of ORG/NAME[:FILE].
struct RepositoryFile {
  std::string repository;  ///< ORG/NAME, or NAME of the oldest models
  std::string file;        ///< behind the colon; empty: there is none
};

/// Whether a hub allows `name`, ORG/NAME or NAME, as that of a model.
bool is_repository(std::string_view name);

/// The parts of `name`; empty ones if it is not of that form.
RepositoryFile parse_repository(const std::string& name);

/// models--ORG--NAME.
std::string cache_folder(const std::string& repository);

std::string lower_ascii(std::string_view text);

/// The file name of a GGUF model without number of the part and ending.
std::string model_stem(const std::string& model);

/// Those of the GGUF files `models` that `file` can mean: by the whole name with or without .gguf,
/// else by the last words of the name between '-' or '.'. Capitals do not count.
std::vector<std::string> matching_models(const std::vector<std::string>& models,
                                         std::string_view file);

/// The one of the GGUF files `models` that is meant by `file`; where that is empty the Q4_K_M file,
/// else the only one. `name` and `place` are for messages. Throws kNotFound if no file is called
/// so, kInput if several could be meant, naming them.
std::string choose_gguf(const std::string& name, const std::string& file, const std::string& place,
                        const std::vector<std::string>& models);

}  // namespace veery
