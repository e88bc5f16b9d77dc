#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/format/sentencepiece_model.h"
#include "text/no_tokenizer.h"
#include "text/split/pre_tokenizer.h"
#include "text/subword/byte_level_bpe.h"
#include "text/subword/sentencepiece_bpe.h"

namespace veery {
namespace {

// Roles as the metadata has them, BOS and EOS as they are added.
TokenRoles roles_with(const Metadata& metadata, const Pipeline& pipeline) {
  TokenRoles roles{.ids = metadata, .ends = {}};
  const auto set = [&](const std::vector<int32_t>& added, const char* id, const char* flag) {
    roles.ids.set(flag, !added.empty());
    if (!added.empty()) roles.ids.set(id, int64_t{added[0]});
  };
  set(pipeline.post.before(), "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token");
  set(pipeline.post.after(), "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token");
  return roles;
}

std::unique_ptr<Tokenizer> make_bert(const Metadata& metadata) {
  Pipeline pipeline = word_piece_pipeline(metadata);
  const TokenRoles roles = roles_with(metadata, pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

std::unique_ptr<Tokenizer> make_t5(const Metadata& metadata) {
  const SentencePieceModel model = read_sentencepiece(metadata);
  Pipeline pipeline = unigram_pipeline(model);
  pipeline.post = special_around(metadata, model.bos, model.eos);
  const TokenRoles roles = roles_with(metadata, pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

}  // namespace

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
  if (*model == "bert") return make_bert(metadata);
  if (*model == "t5") return make_t5(metadata);
  if (*model == "none" || *model == "no_vocab")
    return make_no_tokenizer(fmt::format("{}: no tokenizer is in it", file.path));
  if (*model != "gpt2" && *model != "gemma4")
    throw Error(
        ErrorKind::kUnsupported,
        "{}: tokenizer.ggml.model is \"{}\"; known are gpt2, gemma4, llama, bert, t5 and none",
        file.path, printable(*model));
  const std::string pre =
      *model == "gemma4" ? *model : metadata.text("tokenizer.ggml.pre").value_or("default");
  const PreTokenizerInfo* info = find_pre_tokenizer(pre);
  if (!info)
    throw Error(ErrorKind::kUnsupported, "{}: tokenizer.ggml.pre is \"{}\", which is not known",
                file.path, printable(pre));
  return std::make_unique<ByteLevelBpe>(metadata, *info);
}

}  // namespace veery
