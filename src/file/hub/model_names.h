// model_names.h: models by name: a few known ones, and those in Hugging Face's cache.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace veery {

/// What is asked of a model: its weights, or only what it says about text.
enum class ModelPart { kWeights, kText };

/// The folders in which names are looked up.
struct ModelPlaces {
  std::string own;  ///< what scripts/models.sh fetches
  std::string hub;  ///< Hugging Face's cache: folders models--ORG--NAME
};

/// Hugging Face's folder in the home: HF_HOME, else huggingface in XDG_CACHE_HOME.
std::string hub_home();

/// As the environment says: `own` is VEERY_MODELS, else veery/models in XDG_CACHE_HOME; `hub` is
/// HF_HUB_CACHE, else hub in hub_home(); ~/.cache stands for an XDG_CACHE_HOME that is not set, and
/// a variable without a value counts as not set.
ModelPlaces model_places();

/// The GGUF file (the first part of a split one) or the model folder that is called `name`; empty
/// if there is none. `name` is one of a short table (smollm2, gemma3, minilm), looked for in
/// `places.own` and then by repository_of() in the cache, or ORG/NAME[:FILE] of the cache, of which
/// the snapshot is taken that refs/main names, else the newest one. FILE is the name of a GGUF
/// file, with or without .gguf, or its last words between '-' or '.', such as Q4_K_M; capitals do
/// not count. Without it, a folder with config.json and safetensors goes before the Q4_K_M file,
/// and that before the only GGUF file; where kText is asked for, a snapshot without a model stands
/// for itself. Throws kNotFound if the cache has the model but no such file, kInput if several
/// could be meant, naming them.
std::string find_named_model(const std::string& name, const ModelPlaces& places,
                             ModelPart part = ModelPart::kWeights);

/// The names of the table, whether the models are there or not.
std::vector<std::string> known_names();
/// ORG/NAME[:FILE] of the known model `name` on a hub; empty if `name` is not a known one.
std::string repository_of(const std::string& name);

/// ", nor PATH ...": where find_named_model() has looked for `name` and what fetches it, to end the
/// message that nothing is there; empty if it can be no name.
std::string where_looked(const std::string& name, const ModelPlaces& places);

struct NamedModel {
  std::string name;    ///< what find_named_model() takes for it
  std::string path;    ///< a GGUF file, its first part, or a folder
  uint64_t bytes = 0;  ///< of the file with all its parts; of the safetensors of a folder
  bool folder = false;
};

/// All models that have names and are there, by name: first those of the table. Throws kIo if a
/// folder cannot be read.
std::vector<NamedModel> named_models(const ModelPlaces& places);

}  // namespace veery
