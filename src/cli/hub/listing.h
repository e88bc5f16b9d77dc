// listing.h: what a hub has of a model, and which of its files are wanted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {
class Transfer;

/// A file of a model on a hub.
struct HubFile {
  std::string path;  ///< from the folder of the model: plain names between '/'
  uint64_t bytes = 0;
  std::string digest;  ///< hexadecimal: 64 digits of SHA-256, or 40 of a blob of git
};

struct HubModel {
  std::string commit;  ///< hexadecimal
  std::vector<HubFile> files;
};

/// Asks `endpoint` (https://HOST) for the files of the main branch of `repository`. Throws
/// kNotFound, kIo or kFormat, naming both.
HubModel list_model(Transfer& transfer, const std::string& endpoint, const std::string& repository);

/// Those files that `name`, ORG/NAME[:FILE], means: of GGUF one model with all its parts; else the
/// weights, configurations, vocabularies and templates of a folder. Without FILE a folder with
/// config.json and safetensors goes before GGUF. Throws as choose_gguf(), and kNotFound if there is
/// no model.
std::vector<HubFile> wanted_files(const std::string& name, const std::string& file,
                                  const std::string& endpoint, const HubModel& model);

/// Asks for sizes and digests that the list did not have. Throws kIo or kFormat, naming the file.
void complete(Transfer& transfer, const std::string& endpoint, const std::string& repository,
              const std::string& commit, std::vector<HubFile>& files);

/// Where a file is fetched from.
std::string file_url(const std::string& endpoint, const std::string& repository,
                     const std::string& commit, const std::string& path);

/// Why `status` came for `what`, for messages.
std::string status_text(long status, const std::string& what, bool token);

}  // namespace veery::cli
