#include "text/subword/word_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace veery {
namespace {

constexpr double kUnknownPenalty = 10;  // subtracted from the worst score, as in SentencePiece

constexpr size_t kStart = 3;  // number of leading bytes that are hashed
constexpr size_t kStarts = 1 << 14;

size_t start_of(std::string_view text) {
  return hash_bytes(text.substr(0, kStart)) >> 20 & (kStarts - 1);
}

}  // namespace

void LookUps::fail() const {
  throw Error(
      ErrorKind::kLimit,
      "more than {} vocabulary look-ups for a word of {} bytes: the tokens of the vocabulary "
      "are too long",
      kRoom + kEach * bytes_, bytes_);
}

UnigramModel::UnigramModel(std::shared_ptr<const Vocabulary> vocabulary, std::vector<double> scores,
                           int32_t unknown, bool byte_fallback)
    : vocabulary_(std::move(vocabulary)),
      scores_(std::move(scores)),
      longest_(kStarts),
      unknown_(unknown),
      byte_fallback_(byte_fallback) {
  const auto worst = std::min_element(scores_.begin(), scores_.end());
  unknown_score_ = (worst == scores_.end() ? 0 : *worst) - kUnknownPenalty;
  scores_.resize(static_cast<size_t>(vocabulary_->size()));
  for (int32_t id = 0; id < vocabulary_->size(); ++id) {
    const std::string_view text = vocabulary_->bytes(id);
    uint16_t& longest = longest_[start_of(text)];
    longest = std::max(longest, static_cast<uint16_t>(std::min<size_t>(text.size(), UINT16_MAX)));
  }
  for (int byte = 0; byte < 256; ++byte)
    fallback_ids_[static_cast<size_t>(byte)] =
        vocabulary_->find_written(fmt::format("<0x{:02X}>", byte));
}

size_t UnigramModel::longest_from(std::string_view rest) const {
  const size_t longest = rest.size() < kStart ? kStart : longest_[start_of(rest)];
  return std::min(rest.size(), std::max(longest, kStart));  // shorter tokens have no entry
}

void UnigramModel::find_best(std::string_view word, std::vector<ModelScratch::Node>& nodes) const {
  nodes.assign(word.size() + 1, {});
  LookUps look_ups(word);
  const auto offer = [&](size_t end, double score, int32_t id, size_t begin) {
    ModelScratch::Node& node = nodes[end];
    if (node.begin == UINT32_MAX || score > node.score)
      node = {score, id, static_cast<uint32_t>(begin)};
  };
  for (size_t begin = 0; begin < word.size();) {
    const std::string_view rest = word.substr(begin);
    const auto first = static_cast<size_t>(next_code_point(rest).length);
    const double before = nodes[begin].score;
    const size_t longest = longest_from(rest);
    bool alone = false;  // the character itself is a token
    for (size_t length = first; length <= longest;) {
      look_ups.add(length);
      const int32_t id = vocabulary_->find_bytes(rest.substr(0, length));
      if (id >= 0) {
        offer(begin + length, before + scores_[static_cast<size_t>(id)], id, begin);
        alone |= length == first;
      }
      if (length == rest.size()) break;
      length += static_cast<size_t>(next_code_point(rest.substr(length)).length);
    }
    if (!alone) offer(begin + first, before + unknown_score_, unknown_, begin);
    begin += first;
  }
}

void UnigramModel::append(std::string_view text, int32_t id, ModelScratch& scratch,
                          std::vector<int32_t>& out) const {
  if (id != unknown_) return out.push_back(id);
  const int32_t whole = vocabulary_->find_bytes(text);
  if (whole >= 0) return out.push_back(whole);
  const auto fallback = [&](char c) { return fallback_ids_[static_cast<unsigned char>(c)]; };
  if (byte_fallback_ &&
      std::all_of(text.begin(), text.end(), [&](char c) { return fallback(c) >= 0; })) {
    for (const char c : text) out.push_back(fallback(c));
  } else if (unknown_ >= 0) {
    out.push_back(unknown_);
  } else {
    scratch.lose(text);
  }
}

void UnigramModel::encode(std::string_view word, ModelScratch& scratch,
                          std::vector<int32_t>& out) const {
  find_best(word, scratch.nodes);
  std::vector<TextSymbol>& path = scratch.path;
  path.clear();
  for (auto end = static_cast<uint32_t>(word.size()); end > 0;) {
    const ModelScratch::Node& node = scratch.nodes[end];
    // Adjacent unknown characters become one token.
    if (node.id == unknown_ && !path.empty() && path.back().id == unknown_)
      path.back().begin = node.begin;
    else
      path.push_back({node.id, node.begin, end});
    end = node.begin;
  }
  for (auto part = path.rbegin(); part != path.rend(); ++part)
    append(word.substr(part->begin, part->end - part->begin), part->id, scratch, out);
}

WordPieceModel::WordPieceModel(std::shared_ptr<const Vocabulary> vocabulary, Options options)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      unknown_(vocabulary_->find_written(options_.unknown)) {
  constexpr size_t kLongestPrefix = 64;
  if (options_.prefix.size() > kLongestPrefix)
    throw Error(ErrorKind::kLimit,
                "\"continuing_subword_prefix\" has {} bytes, at most {} are permitted",
                options_.prefix.size(), kLongestPrefix);
}

void WordPieceModel::encode(std::string_view word, ModelScratch& scratch,
                            std::vector<int32_t>& out) const {
  const size_t before = out.size();
  const auto give_up = [&] {
    out.resize(before);
    if (unknown_ >= 0)
      out.push_back(unknown_);
    else
      scratch.lose(word);
  };
  const auto characters = std::count_if(word.begin(), word.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  if (static_cast<size_t>(characters) > options_.longest_word) return give_up();
  LookUps look_ups(word);
  for (size_t begin = 0; begin < word.size();) {
    const std::string_view prefix = begin > 0 ? std::string_view(options_.prefix) : "";
    scratch.text = prefix;
    scratch.text += word.substr(begin, vocabulary_->longest());
    std::string_view text = scratch.text;
    int32_t id = -1;
    while (text.size() > prefix.size() && (id = vocabulary_->find_bytes(text)) < 0) {
      look_ups.add(text.size());
      do {
        text.remove_suffix(1);  // removes one whole character
      } while (text.size() > prefix.size() &&
               (static_cast<unsigned char>(scratch.text[text.size()]) & 0xC0) == 0x80);
    }
    if (id < 0) return give_up();
    out.push_back(id);
    begin += text.size() - prefix.size();
  }
}

WordLevelModel::WordLevelModel(std::shared_ptr<const Vocabulary> vocabulary,
                               std::string_view unknown)
    : vocabulary_(std::move(vocabulary)), unknown_(vocabulary_->find_written(unknown)) {}

void WordLevelModel::encode(std::string_view word, ModelScratch& scratch,
                            std::vector<int32_t>& out) const {
  const int32_t id = vocabulary_->find_bytes(word);
  if (id >= 0 || unknown_ >= 0)
    out.push_back(id >= 0 ? id : unknown_);
  else
    scratch.lose(word);
}

}  // namespace veery
