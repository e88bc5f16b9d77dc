// json_fuzz.cc: the reader and nlohmann's parser must agree on any bytes: same value or both
// reject. Skipping must reject the same input as reading.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/mapped_file.h"

namespace {

using Oracle = nlohmann::ordered_json;

constexpr int kMaxDepth = 16;

// Returns nullopt if the text is rejected; veery's own error is returned through `error`.
veery::Json read(std::string_view text, bool& refused) {
  refused = false;
  try {
    return veery::parse_json(text, "fuzz", kMaxDepth);
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
    refused = true;
    return nullptr;
  }
}

// Reads in place, whereas read() copies.
bool can_be_skipped(std::string_view text) {
  const std::string padded = std::string(text) + std::string(veery::MappedFile::kPadding, '\0');
  const auto held = std::string_view(padded).substr(0, text.size());
  try {
    veery::JsonReader reader(veery::JsonText::padded_text(held), "fuzz", kMaxDepth);
    reader.skip();
    reader.finish();
    return true;
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
    return false;
  }
}

int depth_of(const Oracle& value) {
  int deepest = 0;
  if (!value.is_structured()) return 0;
  for (const Oracle& item : value) deepest = std::max(deepest, depth_of(item));
  return deepest + 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  bool refused = false;
  const veery::Json found = read(text, refused);
  if (refused == can_be_skipped(text)) std::abort();
  if (text.find('\0') != text.npos) return 0;  // nlohmann's parser treats it as the end of the text
  const Oracle expected = Oracle::parse(text, nullptr, false);
  if (expected.is_discarded() || depth_of(expected) > kMaxDepth) {
    if (!refused) std::abort();
  } else if (refused || Oracle::parse(veery::dump_json(found)) != expected) {
    std::abort();
  }
  return 0;
}
