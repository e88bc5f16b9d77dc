// Any vocabulary must be rejected or encode any text. Decoding with a byte-complete vocabulary must
// restore the text, and a written tokenizer.json must be readable.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "file/model_file.h"
#include "text/format/tokenizer_json_write.h"
#include "text/format/world_vocabulary.h"
#include "text/tokenizer.h"

namespace {

// The first line selects kind and flags; the following lines up to an empty one are tokens ("type
// token") and merges ("+left right"); the rest is text.
struct Input {
  veery::ModelFile file;
  std::string_view text;
};

std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

Input read(std::string_view rest) {
  Input input;
  const std::string_view head = take_line(rest);
  const auto flag = [&](size_t i) {
    return i < head.size() ? static_cast<unsigned char>(head[i]) : 0U;
  };
  constexpr const char* kPre[] = {"gpt-2",        "llama-bpe", "qwen2", "tekken",
                                  "deepseek-llm", "superbpe",  "gemma4"};
  std::vector<std::string_view> tokens, merges;
  std::vector<int64_t> types;
  std::vector<double> scores;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (line.empty()) break;
    if (line[0] == '+') {
      merges.push_back(line.substr(1));
      continue;
    }
    types.push_back(line[0] - '0');
    tokens.push_back(line.substr(1));
    scores.push_back(-static_cast<double>(tokens.size() % 7));
  }
  veery::Metadata& metadata = input.file.metadata;
  const char* const model = flag(0) == 'r' ? "rwkv" : flag(0) % 2 ? "llama" : "gpt2";
  metadata.set("tokenizer.ggml.model", std::string(model));
  metadata.set("tokenizer.ggml.pre", std::string(kPre[flag(1) % std::size(kPre)]));
  metadata.set("tokenizer.ggml.tokens", tokens);
  metadata.set("tokenizer.ggml.token_type", types);
  metadata.set("tokenizer.ggml.scores", scores);
  metadata.set("tokenizer.ggml.merges", merges);
  metadata.set("tokenizer.ggml.bos_token_id", static_cast<int64_t>(flag(2)));
  metadata.set("tokenizer.ggml.add_bos_token", flag(3) % 2 == 1);
  metadata.set("tokenizer.ggml.remove_extra_whitespaces", flag(4) % 2 == 1);
  input.text = rest;
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    veery::read_world_vocabulary({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  const Input input = read({reinterpret_cast<const char*>(data), size});
  std::unique_ptr<veery::Tokenizer> tokenizer;
  try {
    tokenizer = veery::make_tokenizer(input.file);
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
    return 0;
  }
  std::string written;
  try {
    written = veery::tokenizer_json(input.file, *tokenizer);
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  if (!written.empty()) veery::parse_json(written, "tokenizer.json");
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer->encode(input.text, {special, special});
    std::string pieces;
    veery::Detokenizer detokenizer(*tokenizer, special);
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer->size()) std::abort();
      pieces += detokenizer.push(id);
    }
    pieces += detokenizer.finish();
    if (tokenizer->decode(ids, special).size() > 0 && pieces.empty()) std::abort();
  }
  return 0;
}
