#include "text/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/format/sentencepiece_model.h"
#include "text/no_tokenizer.h"
#include "text/split/pre_tokenizer.h"
#include "text/subword/byte_level_bpe.h"
#include "text/subword/greedy_tokenizer.h"
#include "text/subword/sentencepiece_bpe.h"

namespace veery {
namespace {

// Returns the metadata with the BOS and EOS that the pipeline adds.
Metadata roles_with(const Metadata& metadata, const Pipeline& pipeline) {
  Metadata roles = metadata;
  const auto set = [&](const std::vector<int32_t>& added, const char* id, const char* flag) {
    roles.set(flag, !added.empty());
    if (!added.empty()) roles.set(id, int64_t{added[0]});
  };
  set(pipeline.post.before(), "tokenizer.ggml.bos_token_id", "tokenizer.ggml.add_bos_token");
  set(pipeline.post.after(), "tokenizer.ggml.eos_token_id", "tokenizer.ggml.add_eos_token");
  return roles;
}

std::unique_ptr<Tokenizer> make_bert(const Metadata& metadata) {
  Pipeline pipeline = word_piece_pipeline(metadata);
  const Metadata roles = roles_with(metadata, pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

std::unique_ptr<Tokenizer> make_t5(const Metadata& metadata) {
  const SentencePieceModel model = read_sentencepiece(metadata);
  Pipeline pipeline = unigram_pipeline(model);
  pipeline.post = special_around(metadata, model.bos, model.eos, PairForm::kSeparated);
  const Metadata roles = roles_with(metadata, pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

}  // namespace

bool Tokenizer::ends(int32_t id) const {
  return std::binary_search(special_.ends.begin(), special_.ends.end(), id);
}

Truncation Tokenizer::truncation_by(const EncodeOptions& options, size_t special) const {
  if (options.max_tokens == 0) return {};
  if (options.max_tokens < special)
    throw Error(ErrorKind::kInput, "the maximum is {} tokens, but {} special tokens are required",
                options.max_tokens, special);
  return {.longest = options.max_tokens, .strategy = options.strategy, .keeps_end = keeps_end_};
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return encode_text(text, options).ids;
}

Encoding Tokenizer::encode_text(std::string_view text, const EncodeOptions& options) const {
  const SequenceTemplate::Parts& parts = template_.single;
  const size_t special = options.add_special ? SequenceTemplate::special_tokens(parts) : 0;
  const Truncation truncation = truncation_by(options, special);
  TokenIds ids = encode_alone(text, options);
  const size_t cut = truncation.apply(special, ids);
  Encoding out = fill_template(parts, ids, {}, options.add_special);
  out.cut = cut;
  return out;
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  const SequenceTemplate::Parts& parts = template_.pair;
  if (parts.empty())
    throw Error(ErrorKind::kUnsupported,
                "the tokenizer does not support pairs of texts: its template has no \"pair\"");
  const size_t special = options.add_special ? SequenceTemplate::special_tokens(parts) : 0;
  const Truncation truncation = truncation_by(options, special);
  TokenIds a = encode_alone(first, options);
  LostBytes lost;
  EncodeOptions for_second = options;
  if (options.lost != nullptr) for_second.lost = &lost;
  TokenIds b = encode_alone(second, for_second);
  if (lost.count > 0) options.lost->add(lost.count, first.size() + lost.first);
  const size_t cut = truncation.apply(special, a, b);
  Encoding out = fill_template(parts, a, b, options.add_special);
  out.cut = cut;
  return out;
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
  if (*model == "rwkv") return std::make_unique<GreedyTokenizer>(metadata);
  if (*model == "t5") return make_t5(metadata);
  if (*model == "none" || *model == "no_vocab")
    return make_no_tokenizer(fmt::format("{}: the file has no tokenizer", file.path));
  if (*model != "gpt2" && *model != "gemma4")
    throw Error(ErrorKind::kUnsupported,
                "{}: unknown tokenizer.ggml.model \"{}\", expected gpt2, gemma4, llama, bert, t5, "
                "rwkv or none",
                file.path, printable(*model));
  const std::string pre =
      *model == "gemma4" ? *model : metadata.text("tokenizer.ggml.pre").value_or("default");
  const PreTokenizerInfo* info = find_pre_tokenizer(pre);
  if (!info)
    throw Error(ErrorKind::kUnsupported, "{}: unknown tokenizer.ggml.pre \"{}\"", file.path,
                printable(pre));
  return std::make_unique<ByteLevelBpe>(metadata, *info);
}

}  // namespace veery
