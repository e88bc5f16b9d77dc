// pattern_fuzz.cc: any pattern must compile or be rejected with a message; a language and its
// complement must not share a text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/grammar/language/pattern.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 200) return 0;
  const std::string_view pattern(reinterpret_cast<const char*>(data), size);
  try {
    const veery::schema::Dfa language = veery::schema::pattern_language(pattern);
    if (language.states().size() > 300) return 0;
    const veery::schema::Dfa rest = language.complement();
    if (!intersect(language, rest).empty() || !unite(language, rest).is_all()) std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
