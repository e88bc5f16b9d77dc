// find_model.h: which file or folder is meant by the path of a model.
#pragma once
#include <string>

#include "file/hub/model_names.h"

namespace veery {

/// The GGUF file or model folder that `path` means:
/// - a folder with config.json and safetensors: itself;
/// - another folder: the one GGUF file in it. The parts of a split file are one; projectors of
///   images (*mmproj*) are none;
/// - a folder of Hugging Face's cache (models--ORG--NAME): the snapshot that refs/main names, else
///   the newest one, by these rules;
/// - a file of a model folder (config.json, *.safetensors, *.safetensors.index.json): the folder;
/// - any other file: itself;
/// - what is not there: the model of that name (file/hub/model_names.h).
/// Where kText is asked for, a folder that has no model stands for itself, too, and a
/// tokenizer_config.json for its folder. Throws kNotFound if nothing is there, kInput if several
/// files could be meant, naming them, kFormat if `path` is no part of a model.
std::string find_model(const std::string& path, ModelPart part = ModelPart::kWeights);

}  // namespace veery
