#include "capi/results.h"

#include <veery/veery.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace veery::capi {

void give_bytes(const void* data, size_t bytes, void** out) {
  void* copy = std::malloc(bytes + 1);
  if (copy == nullptr) throw std::bad_alloc();
  if (bytes > 0) std::memcpy(copy, data, bytes);
  static_cast<char*>(copy)[bytes] = 0;
  *out = copy;
}

void give_text(std::string_view text, char** out, size_t* length) {
  void* copy = nullptr;
  give_bytes(text.data(), text.size(), &copy);
  *out = static_cast<char*>(copy);
  if (length != nullptr) *length = text.size();
}

}  // namespace veery::capi

void veery_free(void* memory) { std::free(memory); }
