// sentence_folder_fuzz.cc: any JSON of a sentence-transformers folder must yield settings within
// bounds, or throw veery::Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "import/folder/sentence_folder.h"

namespace {

template <typename Parse>
void attempt(const Parse& parse) {
  try {
    parse();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  veery::Json json;
  try {
    json = veery::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const veery::Error&) {
    return 0;
  }
  attempt([&] {
    for (const auto& module : veery::parse_sentence_modules(json, "fuzz"))
      if (module.path.find('/') != std::string::npos) std::abort();
  });
  attempt([&] {
    const veery::SentenceDense layer = veery::parse_dense(json, "fuzz");
    if (layer.in < 1 || layer.out < 1) std::abort();
  });
  attempt([&] {
    veery::SentenceConfig config;
    veery::parse_pooling(json, "fuzz", config);
    if (config.pooled_width < 0) std::abort();
  });
  attempt([&] {
    veery::SentenceConfig config;
    veery::parse_logit_score(json, "fuzz", config);
    if (config.yes < 0 || config.no < 0) std::abort();
  });
  attempt([&] {
    veery::SentenceConfig config;
    veery::parse_sentence_settings(json, "fuzz", config);
  });
  attempt([&] {
    if (veery::parse_score_config(json, "fuzz").labels < 1) std::abort();
  });
  return 0;
}
