#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "text/byte_level_bpe.h"
#include "text/pre_tokenizer.h"
#include "text/sentencepiece_bpe.h"

namespace veery {

bool Tokenizer::ends(int32_t id) const {
  return std::binary_search(special_.ends.begin(), special_.ends.end(), id);
}

std::string Tokenizer::first_piece(int32_t id, bool special) const {
  std::string text = piece(id, special);
  if (adds_space_ && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file) {
  const Metadata& metadata = file.metadata;
  const std::optional<std::string> model = metadata.text("tokenizer.ggml.model");
  if (!model) throw Error(ErrorKind::kFormat, "{}: tokenizer.ggml.model is missing", file.path);
  if (*model == "llama") return std::make_unique<SentencePieceBpe>(metadata);
  if (*model != "gpt2" && *model != "gemma4")
    throw Error(ErrorKind::kUnsupported,
                "{}: tokenizer.ggml.model is \"{}\"; known are gpt2, gemma4 and llama", file.path,
                *model);
  const std::string pre =
      *model == "gemma4" ? *model : metadata.text("tokenizer.ggml.pre").value_or("default");
  const PreTokenizerInfo* info = find_pre_tokenizer(pre);
  if (!info)
    throw Error(ErrorKind::kUnsupported, "{}: tokenizer.ggml.pre is \"{}\", which is not known",
                file.path, pre);
  return std::make_unique<ByteLevelBpe>(metadata, *info);
}

}  // namespace veery
