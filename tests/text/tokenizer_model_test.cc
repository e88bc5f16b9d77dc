// Token ids of real models compared with the models' own tokenizers (tools/oracle).
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "file/gguf/gguf.h"
#include "support/models.h"
#include "text/tokenizer.h"

namespace veery {
namespace {

void expect_recorded_ids(const std::string& name, const std::string& file) {
  const std::string path = test::model_path(file);
  VEERY_NEEDS_MODEL(path);
  const auto tokenizer = make_tokenizer(open_gguf(path));
  const Json cases = test::read_fixture(name + "/tokens.json");
  EXPECT_GT(cases.size(), 400U);
  for (const Json& item : cases) {
    const auto text = item["text"].get<std::string>();
    const EncodeOptions options{.add_special = false, .parse_special = item["special"].get<bool>()};
    const std::vector<int32_t> ids = tokenizer->encode(text, options);
    EXPECT_EQ(ids, item["ids"].get<std::vector<int32_t>>()) << text;
    Detokenizer detokenizer(*tokenizer, true);
    std::string streamed;
    for (const int32_t id : ids) streamed += detokenizer.push(id);
    EXPECT_EQ(streamed + detokenizer.finish(), valid_utf8(tokenizer->decode(ids, true)));
  }
}

TEST(TokenizerModel, SmolLm2) { expect_recorded_ids("SmolLM2-135M-Instruct", test::kSmolLM2); }

TEST(TokenizerModel, Gemma3) { expect_recorded_ids("gemma-3-270m", test::kGemma3); }

}  // namespace
}  // namespace veery
