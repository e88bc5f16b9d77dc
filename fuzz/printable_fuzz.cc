// printable_fuzz.cc: printable text must be bounded, valid UTF-8 without control characters, and
// unchanged when processed again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "base/utf8.h"

namespace {

void check(const std::string& text, std::string_view kept) {
  for (std::string_view rest = text; !rest.empty();) {
    const veery::CodePoint point = veery::next_code_point(rest);
    const bool control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    const bool stays = point.value < 0x20 && kept.find(static_cast<char>(point.value)) != kept.npos;
    if (!point.valid || (control && !stays)) std::abort();
    rest.remove_prefix(static_cast<size_t>(point.length));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const size_t most : {size_t{3}, size_t{16}, size_t{80}, 6 * size + 3}) {
    const std::string shown = veery::printable(text, most);
    if (shown.size() > most || veery::printable(shown, most) != shown) std::abort();
    check(shown, "");
  }
  check(veery::escaped(text), "");
  check(veery::terminal_text(text), "\n\t");
  return 0;
}
