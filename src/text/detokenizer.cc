#include "base/utf8.h"
#include "text/tokenizer.h"

namespace veery {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool special, bool goes_on)
    : tokenizer_(&tokenizer), special_(special), first_(!goes_on) {}

std::string Detokenizer::push(int32_t id, bool special) {
  if (first_) {
    held_ += tokenizer_->first_piece(id, special);
    // Tokens that are not shown, or are only the space, do not end the beginning of the text.
    first_ = held_.empty() && tokenizer_->piece(id, special).empty();
  } else {
    held_ += tokenizer_->piece(id, special);
  }
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
