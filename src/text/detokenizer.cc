#include "base/utf8.h"
#include "text/tokenizer.h"

namespace veery {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool special, bool goes_on)
    : tokenizer_(&tokenizer), special_(special), drop_space_(tokenizer.adds_space() && !goes_on) {}

std::string Detokenizer::push(int32_t id) {
  std::string_view piece;
  const std::string bytes = tokenizer_->piece(id, special_);
  piece = bytes;
  if (drop_space_ && !piece.empty()) {
    if (piece[0] == ' ') piece.remove_prefix(1);
    drop_space_ = false;
  }
  held_ += piece;
  const auto keep = static_cast<size_t>(incomplete_utf8_suffix(held_));
  const std::string_view ready = std::string_view(held_).substr(0, held_.size() - keep);
  std::string out = valid_utf8(ready);
  held_.erase(0, ready.size());
  return out;
}

std::string Detokenizer::finish() {
  std::string out = valid_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace veery
