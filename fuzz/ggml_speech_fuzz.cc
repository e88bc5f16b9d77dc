// ggml_speech_fuzz.cc: any bytes must be a whisper.cpp model with readable configuration and
// vocabulary, or throw veery::Error.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "import/ggml_speech.h"
#include "import/read_config.h"
#include "model/arch/entry.h"
#include "tasks/speech/speech_tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const veery::ModelFile file =
        veery::parse_ggml_speech(std::as_bytes(std::span(data, size)), "fuzz");
    for (const veery::TensorView& tensor : file.tensors) {
      std::vector<std::byte> buffer;
      tensor.read(buffer);
    }
    const veery::TransformerConfig config = veery::read_config(file);
    const veery::SpeechKeys keys = veery::read_speech_keys(file, config);
    veery::find_speech_tokens(*veery::make_tokenizer(file), keys, config);
    veery::transcribe_entry(file, config);
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
