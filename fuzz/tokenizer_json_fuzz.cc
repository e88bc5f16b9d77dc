// Any tokenizer.json must be rejected or encode any text and any pair of texts; without special
// tokens only with ids that it defines. Streamed decoding must yield valid UTF-8.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/common/regex.h"
#include "text/format/tokenizer_json.h"

namespace {

constexpr std::string_view kText =
    "Hello, low lower! \u00e9\u4f60\U0001F600 a\u2581b  12 don't <s>x</s>\n\xFF\xC3 \u1c89";

std::unique_ptr<veery::Tokenizer> load(std::string_view json) {
  veery::Pipeline pipeline = veery::read_tokenizer_json(json, "input");
  const veery::Metadata roles = veery::roles_of(pipeline);
  return std::make_unique<veery::PipelineTokenizer>(std::move(pipeline), roles);
}

void check(const veery::Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {special, special});
    veery::Detokenizer detokenizer(tokenizer, special);
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer.size()) std::abort();
      if (!veery::is_valid_utf8(detokenizer.push(id))) std::abort();
    }
    tokenizer.decode(ids, special);
  }
}

// Ids and segments must have the same length, limited to the requested one.
void check_pair(const veery::Tokenizer& tokenizer, std::string_view first,
                std::string_view second) {
  for (const size_t most : {size_t{0}, size_t{7}, size_t{2000}}) {
    veery::EncodeOptions options;
    options.max_tokens = most;
    const veery::Encoding pair = tokenizer.encode_pair(first, second, options);
    if (pair.ids.size() != pair.types.size() || (most > 0 && pair.ids.size() > most)) std::abort();
    for (size_t i = 0; i < pair.ids.size(); ++i)
      if (pair.ids[i] < 0 || pair.ids[i] >= tokenizer.size() || pair.types[i] < 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = load(input);
    check(*tokenizer, kText);
    check(*tokenizer, input.substr(0, 200));
    check_pair(*tokenizer, kText, input.substr(0, 200));
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
