// encoding.h: embeddings, for the endpoints of several families.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "serve/models/models.h"

namespace veery::serve {

/// `dimensions`: the first so many, of length 1 again; 0: all. Throws ApiError where the model
/// makes none or fewer.
std::vector<TextEmbedding> embed_texts(ServedModel& model, std::span<const std::string> texts,
                                       int64_t dimensions);

}  // namespace veery::serve
