// listing.h: lists the files of a model on a hub and selects those to download.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {
class Transfer;

/// A file of a model on a hub.
struct HubFile {
  std::string path;  ///< relative to the folder of the model, without hidden names or ..
  uint64_t bytes = 0;
  std::string digest;  ///< hexadecimal: SHA-256 (64 digits) or that of a git blob (40)
};

struct HubModel {
  std::string commit;  ///< hexadecimal
  std::vector<HubFile> files;
};

/// Lists the files of the main branch of `repository` at `endpoint` (https://HOST). Throws
/// kNotFound, kIo or kFormat naming both.
HubModel list_model(Transfer& transfer, const std::string& endpoint, const std::string& repository);

/// Selects the files of `name`, ORG/NAME[:FILE]: one GGUF model with all its parts, or the weights,
/// configurations, vocabularies and templates of a folder. Without FILE a folder with config.json
/// and safetensors takes precedence over GGUF. Throws as choose_gguf() does, and kNotFound if there
/// is no model.
std::vector<HubFile> wanted_files(const std::string& name, const std::string& file,
                                  const std::string& endpoint, const HubModel& model);

/// Requests sizes and digests that the list lacks. Throws kIo or kFormat naming the file.
void complete(Transfer& transfer, const std::string& endpoint, const std::string& repository,
              const std::string& commit, std::vector<HubFile>& files);

/// Returns the address of a file.
std::string file_url(const std::string& endpoint, const std::string& repository,
                     const std::string& commit, const std::string& path);

/// Describes the HTTP status of the reply for `what`, for error messages.
std::string status_text(long status, const std::string& what, bool token);

}  // namespace veery::cli
