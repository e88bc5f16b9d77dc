// pull.h: downloads models from a hub into Hugging Face's cache.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "file/hub/model_names.h"

namespace veery::cli {

/// The hub and the credentials for it.
struct HubSettings {
  std::string endpoint;  ///< https://HOST, without '/' at its end
  std::string token;     ///< empty: anonymous
};

/// Whether HF_HUB_OFFLINE forbids network access.
bool hub_offline();

/// Returns the settings of the environment, as Hugging Face's library reads them: HF_ENDPOINT;
/// HF_TOKEN, else the content of the file HF_TOKEN_PATH or HF_HOME/token. Throws kInput if
/// HF_HUB_OFFLINE is set, or if the endpoint is not an http:// or https:// address.
HubSettings hub_settings();

/// Callbacks for progress and messages of a download.
struct PullView {
  std::function<void(uint64_t done, uint64_t all, const std::string& file)> progress;
  std::function<void(const std::string& line)> say;
};

struct Pulled {
  std::string path;  ///< the GGUF file or folder to use as MODEL
  std::string commit;
  size_t files = 0;      ///< number of selected files
  uint64_t bytes = 0;    ///< their size
  uint64_t fetched = 0;  ///< bytes that were downloaded
};

/// Downloads the model `name`, ORG/NAME[:FILE] or a known name (repository_of()), into
/// `places.hub`, where find_named_model() finds it. The layout (blobs by digest, a snapshot of
/// links, refs/main) and the locks are those of huggingface_hub. Resumes partial downloads and
/// retries broken connections. A file gets its name only after its size and digest have been
/// verified. Throws kInput for another name, kNotFound, kIo, kFormat (wrong digest; the file is
/// removed), and kUnsupported without libcurl.
Pulled pull_model(const std::string& name, const HubSettings& settings, const ModelPlaces& places,
                  const PullView& view);

}  // namespace veery::cli
