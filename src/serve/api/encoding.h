// encoding.h: embeddings for the endpoints of several APIs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "serve/models/models.h"

namespace veery::serve {

/// Returns one embedding per text. `dimensions`: keeps only the first ones and normalises the
/// vector to length 1 again; 0: keeps all. Throws ApiError if the model makes no embeddings or
/// smaller ones.
std::vector<TextEmbedding> embed_texts(ServedModel& model, std::span<const std::string> texts,
                                       int64_t dimensions);

}  // namespace veery::serve
