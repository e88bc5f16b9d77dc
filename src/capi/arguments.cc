#include "capi/arguments.h"

#include <veery/veery.h>

namespace veery::capi {

std::string_view text_of(const char* text, size_t length, const char* name) {
  if (text == nullptr && length == 0) return {};
  required(text, name);
  return length == VEERY_NUL ? std::string_view(text) : std::string_view(text, length);
}

std::string required_text(const char* text, const char* name) { return &required(text, name); }

std::vector<std::string> texts_of(const char* const* texts, size_t count, const char* name) {
  if (count > 0) required(texts, name);
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) throw Error(ErrorKind::kInput, "{}[{}] is null", name, i);
    result.emplace_back(texts[i]);
  }
  return result;
}

std::vector<int32_t> ids_of(const int32_t* ids, size_t count) {
  if (count > 0) required(ids, "ids");
  return {ids, ids + count};
}

}  // namespace veery::capi
