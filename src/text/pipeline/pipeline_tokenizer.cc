#include "text/pipeline/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/common/byte_alphabet.h"
#include "text/special_tokens.h"
#include "text/subword/word_cache.h"

namespace veery {

struct PipelineTokenizer::Work {
  Work(size_t bytes, const EncodeOptions& wanted) : options(wanted), cache(bytes), growth(bytes) {
    context.growth = Growth(bytes);
  }

  const EncodeOptions& options;
  std::vector<int32_t> out;
  WordCache cache;
  ModelScratch model;
  Splitter::Context context;
  Growth growth;  // of the normalizer
};

namespace {

// Adds the lost bytes of `part` of `text` to `lost` and resets the model's counter.
void count_lost(std::string_view text, std::string_view part, ModelScratch& model,
                LostBytes& lost) {
  if (model.lost == 0) return;
  // A step may have rewritten the word; its offset in the text is then not known.
  const auto place = reinterpret_cast<uintptr_t>(model.first_lost);
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const bool known = place >= begin && place < begin + part.size();
  const auto at = static_cast<size_t>(part.data() - text.data());
  lost.add(std::exchange(model.lost, 0), at + (known ? place - begin : 0));
}

}  // namespace

PipelineTokenizer::PipelineTokenizer(Pipeline pipeline, const Metadata& roles)
    : parts_(std::move(pipeline)) {
  size_ = parts_.vocabulary->size();
  const std::vector<AddedToken>& added = parts_.added.tokens();
  for (uint32_t i = 0; i < added.size(); ++i) {
    if (added[i].special || is_control_name(added[i].content))
      controls_.push_back(added[i].content);
    size_ = std::max(size_, added[i].id + 1);
    added_by_id_.emplace(added[i].id, i);
    added_by_text_.emplace(added[i].content, added[i].id);
  }
  adds_space_ = parts_.decoder.drops_space();
  template_ = parts_.post.sequence();
  keeps_end_ = parts_.keeps_end;
  for (const SequenceTemplate::Parts* list : {&template_.single, &template_.pair})
    for (const SequenceTemplate::Part& part : *list)
      if (part.id >= size_)
        throw Error(ErrorKind::kFormat,
                    "the post-processor adds token {}, outside the vocabulary of {} tokens",
                    part.id, size_);
  resolve_roles(roles);
}

// Only added tokens can have roles.
void PipelineTokenizer::resolve_roles(const Metadata& roles) {
  std::vector<std::string_view> texts(static_cast<size_t>(size_));
  std::vector<TokenType> types(texts.size(), TokenType::kNormal);
  for (const AddedToken& token : parts_.added.tokens()) {
    texts[static_cast<size_t>(token.id)] = token.content;
    types[static_cast<size_t>(token.id)] =
        token.special ? TokenType::kControl : TokenType::kUserDefined;
  }
  Vocabulary names(texts, types, false);
  special_ = resolve_special(roles, {}, names);
  hidden_.resize(texts.size());
  // Marks that the answer parser needs (Harmony) are shown although they are special tokens.
  for (const AddedToken& token : parts_.added.tokens())
    hidden_[static_cast<size_t>(token.id)] =
        token.special && names.type(token.id) != TokenType::kUserDefined;
}

std::vector<int32_t> PipelineTokenizer::encode_alone(std::string_view text,
                                                     const EncodeOptions& options) const {
  if (text.size() > UINT32_MAX / 4)
    throw Error(ErrorKind::kLimit, "text to encode has {} bytes, at most {} are permitted",
                text.size(), UINT32_MAX / 4);
  Work work(text.size(), options);
  work.context.needs_substitutes = needs_substitutes(text);
  parts_.added.for_each_part(text, false, options.parse_special,
                             [&](const AddedToken* token, std::string_view part) {
                               if (token) {
                                 work.out.push_back(token->id);
                                 return;
                               }
                               encode_gap(part, part.data() == text.data(), work);
                               if (options.lost != nullptr)
                                 count_lost(text, part, work.model, *options.lost);
                             });
  return std::move(work.out);
}

void PipelineTokenizer::encode_gap(std::string_view gap, bool first, Work& work) const {
  std::string changed, unguarded;
  if (!parts_.normalizer.empty()) gap = changed = parts_.normalizer(gap, work.growth);
  const std::string_view guard = work.options.guard;
  parts_.added.for_each_part(gap, true, work.options.parse_special,
                             [&](const AddedToken* token, std::string_view part) {
                               if (token) {
                                 work.out.push_back(token->id);
                                 return;
                               }
                               const bool at_begin = first && part.data() == gap.data();
                               if (!guard.empty() && part.find(guard) != std::string_view::npos)
                                 part = unguarded = without_guard(part, guard);
                               if (!part.empty()) encode_words({part, at_begin}, work);
                             });
}

void PipelineTokenizer::encode_words(const Piece& piece, Work& work) const {
  const auto word = [&](const Piece& part) {
    if (const auto* model = std::get_if<BpeModel>(&parts_.model))
      model->for_each_part(part.text, [&](std::string_view text) { encode_word(text, work); });
    else
      encode_word(part.text, work);
  };
  parts_.splitter.split(piece, work.context, word);
}

void PipelineTokenizer::encode_word(std::string_view word, Work& work) const {
  const auto encode = [&](const auto& model) { model.encode(word, work.model, work.out); };
  if (!work.cache.takes(word)) return std::visit(encode, parts_.model);
  const uint64_t hash = hash_bytes(word);
  if (work.cache.find(word, hash, work.out)) return;
  const size_t before = work.out.size();
  const size_t lost = work.model.lost;
  std::visit(encode, parts_.model);
  // Words with lost bytes are not cached, so that each occurrence is counted.
  if (work.model.lost > lost) return;
  work.cache.insert(word, hash, std::span<const int32_t>(work.out).subspan(before));
}

void PipelineTokenizer::check(int32_t id) const {
  if (id < 0 || id >= size_)
    throw Error(ErrorKind::kInput, "token {} is outside the vocabulary of {} tokens", id, size_);
}

bool PipelineTokenizer::is_shown(int32_t id, bool special) const {
  return special || !hidden_[static_cast<size_t>(id)];
}

std::string PipelineTokenizer::token(int32_t id) const {
  check(id);
  const auto added = added_by_id_.find(id);
  if (added != added_by_id_.end()) return parts_.added.tokens()[added->second].content;
  return id < parts_.vocabulary->size() ? parts_.vocabulary->written(id) : std::string();
}

std::string PipelineTokenizer::piece_at(int32_t id, bool special, bool first) const {
  check(id);
  if (!is_shown(id, special)) return {};
  const Vocabulary& vocabulary = *parts_.vocabulary;
  const bool plain = id < vocabulary.size() && vocabulary.alphabetic(id);
  if (parts_.decoder.is_byte_level() && plain && !added_by_id_.contains(id))
    return std::string(vocabulary.bytes(id));
  return parts_.decoder.piece(token(id), first);
}

std::string PipelineTokenizer::piece(int32_t id, bool special) const {
  return piece_at(id, special, false);
}

std::string PipelineTokenizer::first_piece(int32_t id, bool special) const {
  return piece_at(id, special, true);
}

std::string PipelineTokenizer::decode(const std::vector<int32_t>& ids, bool special) const {
  if (parts_.decoder.is_byte_level()) {
    std::string out;
    for (const int32_t id : ids) out += piece_at(id, special, false);
    return out;
  }
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    std::string text = token(id);
    if (is_shown(id, special) && !text.empty()) tokens.push_back(std::move(text));
  }
  return parts_.decoder.decode(std::move(tokens));
}

std::optional<int32_t> PipelineTokenizer::find(std::string_view text) const {
  const auto added = added_by_text_.find(std::string(text));
  if (added != added_by_text_.end()) return added->second;
  const int32_t id = parts_.vocabulary->find_written(text);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

}  // namespace veery
