// model_names.h: resolves model names: a few short names, and models in the Hugging Face cache.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace veery {

/// The part of a model that is needed: its weights, or only its tokenizer and chat template.
enum class ModelPart { kWeights, kText };

/// The folders in which model names are resolved.
struct ModelPlaces {
  std::string own;  ///< folder that scripts/models.sh downloads to
  std::string hub;  ///< Hugging Face cache: folders models--ORG--NAME
};

/// Returns Hugging Face's home folder: HF_HOME, or else huggingface in XDG_CACHE_HOME.
std::string hub_home();

/// Returns the folders according to the environment: `own` is VEERY_MODELS, or else veery/models in
/// XDG_CACHE_HOME; `hub` is HF_HUB_CACHE, or else hub in hub_home(). An unset XDG_CACHE_HOME means
/// ~/.cache; empty variables count as unset.
ModelPlaces model_places();

/// Returns the GGUF file (the first part of a split one) or the model folder named `name`; empty if
/// there is none. `name` is either a short name (smollm2, gemma3, minilm), looked up in
/// `places.own` and then as repository_of() in the cache, or ORG/NAME[:FILE] in the cache.
/// In the cache, the snapshot that refs/main names is used, or else the newest one. FILE is the
/// name of a GGUF file, with or without .gguf, or its last words between '-' or '.', such as
/// Q4_K_M, ignoring case. Without FILE, the preference is: a folder with config.json and
/// safetensors, the Q4_K_M file, the only GGUF file; for kText also a snapshot without a model.
/// Throws kNotFound if the cache has the model but not the file, kInput naming the candidates if
/// several match.
std::string find_named_model(const std::string& name, const ModelPlaces& places,
                             ModelPart part = ModelPart::kWeights);

/// Returns all short names, whether or not the models are present.
std::vector<std::string> known_names();
/// Returns ORG/NAME[:FILE] of the model with the short name `name`; empty if it is not a short
/// name.
std::string repository_of(const std::string& name);

/// Returns the end of a "not found" message: ", nor PATH ..." lists where find_named_model() looked
/// for `name` and the command that downloads it. Empty if `name` cannot be a model name.
std::string where_looked(const std::string& name, const ModelPlaces& places);

struct NamedModel {
  std::string name;    ///< name for find_named_model()
  std::string path;    ///< GGUF file (the first part of a split one) or folder
  uint64_t bytes = 0;  ///< size including all parts, or of the safetensors of a folder
  bool folder = false;
};

/// Returns all models that are present and have a name: short names first, then the cache. Throws
/// kIo if a folder cannot be read.
std::vector<NamedModel> named_models(const ModelPlaces& places);

}  // namespace veery
