// pull.h: models fetched from a hub into Hugging Face's cache.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "file/hub/model_names.h"

namespace veery::cli {

/// The hub that is asked, and as whom.
struct HubSettings {
  std::string endpoint;  ///< https://HOST, without '/' at its end
  std::string token;     ///< empty: nobody
};

/// Whether HF_HUB_OFFLINE forbids to ask a hub.
bool hub_offline();

/// As the environment says, in the way of Hugging Face's library: HF_ENDPOINT; HF_TOKEN, else what
/// is in the file HF_TOKEN_PATH or HF_HOME/token. Throws kInput if HF_HUB_OFFLINE is set, or for an
/// endpoint that is no http:// or https:// address.
HubSettings hub_settings();

/// What people see while a model is fetched.
struct PullView {
  std::function<void(uint64_t done, uint64_t all, const std::string& file)> progress;
  std::function<void(const std::string& line)> say;
};

struct Pulled {
  std::string path;  ///< what MODEL is then: a GGUF file or a folder
  std::string commit;
  size_t files = 0;      ///< that are wanted
  uint64_t bytes = 0;    ///< of them
  uint64_t fetched = 0;  ///< bytes that were not there
};

/// Fetches what ORG/NAME[:FILE] or a known name (repository_of()) means, as find_named_model()
/// reads it, into `places.hub`: blobs by digest, a snapshot of links to them and refs/main, as
/// huggingface_hub lays them out, and under its locks. What was begun is gone on with, broken
/// connections are tried again, and no file is there under its name before its size and digest are
/// right. Throws kInput for another name, kNotFound, kIo, kFormat (a wrong digest; the file is then
/// gone), kUnsupported without libcurl.
Pulled pull_model(const std::string& name, const HubSettings& settings, const ModelPlaces& places,
                  const PullView& view);

}  // namespace veery::cli
