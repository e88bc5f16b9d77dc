// schema_fuzz.cc: any JSON schema must compile to rules or be rejected with a message.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/answer_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  try {
    const veery::Json schema =
        veery::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!veery::schema_rules(schema).starts_with("root ::= ")) std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
