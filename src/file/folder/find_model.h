// find_model.h: resolves the path or name of a model to a file or folder.
#pragma once
#include <string>

#include "file/hub/model_names.h"

namespace veery {

/// Returns the GGUF file or model folder that `path` refers to:
/// - a folder with config.json and safetensors: itself;
/// - another folder: the only GGUF model in it. All parts of a split file count as one model, image
///   projectors (*mmproj*) do not count;
/// - a folder of the Hugging Face cache (models--ORG--NAME): the snapshot that refs/main names, or
///   else the newest one, resolved by these rules;
/// - a file of a model folder (config.json, *.safetensors, *.safetensors.index.json): the folder;
/// - any other file: itself;
/// - a path that does not exist: the model of that name (file/hub/model_names.h).
/// For kText, a folder without a model is returned itself, and a tokenizer_config.json is resolved
/// to its folder. Throws kNotFound if nothing exists, kInput naming the candidates if several files
/// match, kFormat if `path` is not part of a model.
std::string find_model(const std::string& path, ModelPart part = ModelPart::kWeights);

}  // namespace veery
