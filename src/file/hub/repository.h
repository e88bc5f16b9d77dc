// repository.h: repository names on a hub, and the choice of a GGUF file by its short name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// Prefix of model folders in the Hugging Face cache: models--ORG--NAME.
inline constexpr std::string_view kCacheFolderPrefix = "models--";

/// The two parts of ORG/NAME[:FILE].
struct RepositoryFile {
  std::string repository;  ///< ORG/NAME, or NAME for the oldest models
  std::string file;        ///< part after the colon; empty if there is none
};

/// Returns whether `name` is a valid repository name (ORG/NAME or NAME).
bool is_repository(std::string_view name);

/// Splits `name`; returns empty parts if it does not have that form.
RepositoryFile parse_repository(const std::string& name);

/// Returns models--ORG--NAME.
std::string cache_folder(const std::string& repository);

std::string lower_ascii(std::string_view text);

/// Returns the file name of a GGUF model without part number and extension.
std::string model_stem(const std::string& model);

/// Returns those of the GGUF files `models` that `file` matches: by the whole name with or without
/// .gguf, or else by the last words between '-' or '.'; case is ignored.
std::vector<std::string> matching_models(const std::vector<std::string>& models,
                                         std::string_view file);

/// Returns the one of the GGUF files `models` that matches `file`; if `file` is empty, the Q4_K_M
/// file, or else the only one. `name` and `place` are for messages. Throws kNotFound if no file
/// matches, kInput naming the candidates if several do.
std::string choose_gguf(const std::string& name, const std::string& file, const std::string& place,
                        const std::vector<std::string>& models);

}  // namespace veery
