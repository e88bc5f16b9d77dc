// chat_file_fuzz.cc: any text must be a saved chat that survives writing and reading, or throw
// veery::Error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "chat/chat_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const veery::ChatFile chat = veery::read_chat(text, "fuzz");
    const std::string written = veery::write_chat(chat);
    if (veery::write_chat(veery::read_chat(written, "again")) != written) std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
