// all-MiniLM-L6-v2 with real weights against transformers in float32 on 500 texts, recorded by
// tools/oracle/record_minilm.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "convert/as_gguf.h"
#include "convert/quantize.h"
#include "support/models.h"
#include "tasks/embed.h"

namespace veery {
namespace {

constexpr size_t kColumns = 384;

// Decodes an IEEE half, which must be normal or 0.
float from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  const float size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

/// Returns the lowest and the mean cosine to the recorded embeddings.
struct Nearness {
  double least = 1, mean = 0;
};
Nearness nearness(const std::string& path, const LoadOptions& load) {
  std::vector<std::string> texts;
  for (const Json& text : test::read_fixture("minilm/texts.json"))
    texts.push_back(text.get<std::string>());
  const std::string bytes = test::read_text(test::fixture_path("minilm/embeddings.f16"));
  EXPECT_EQ(texts.size(), 500U);
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), texts.size());
  EXPECT_EQ(bytes.size(), texts.size() * kColumns * 2);
  // GGUF files have no maximum length of texts.
  Embedder embedder(path, load, {.max_tokens = 256});
  const std::vector<TextEmbedding> all = embedder.embed(texts);
  Nearness result;
  for (size_t t = 0; t < all.size(); ++t) {
    EXPECT_EQ(all[t].values.size(), kColumns);
    double product = 0, own = 0, recorded = 0;
    for (size_t c = 0; c < kColumns; ++c) {
      uint16_t half = 0;
      std::memcpy(&half, bytes.data() + (t * kColumns + c) * 2, 2);
      const double expected = from_half(half), got = all[t].values[c];
      product += expected * got, own += got * got, recorded += expected * expected;
    }
    const double cosine = product / std::sqrt(own * recorded);
    result.least = std::min(result.least, cosine);
    result.mean += cosine / static_cast<double>(all.size());
  }
  return result;
}

std::string folder() { return test::model_path("all-MiniLM-L6-v2"); }

TEST(MiniLM, EmbeddingsMatchTransformers) {
  VEERY_NEEDS_MODEL(folder());
  const Nearness exact = nearness(folder(), {.exact = true});
  EXPECT_GT(exact.least, 0.99999);
  const Nearness usual = nearness(folder(), {});
  EXPECT_GT(usual.least, 0.99999);
}

TEST(MiniLM, EmbeddingsOfQ8AreClose) {
  VEERY_NEEDS_MODEL(folder());
  const std::string path = ::testing::TempDir() + "minilm-q8_0.gguf";
  {
    const ModelFile file = open_as_gguf(folder());
    const QuantMix& mix = find_quant_mix("Q8_0");
    ThreadPool pool(1);
    write_quantized(file, plan_types(file, mix, {}), quantized_metadata(file, mix, nullptr, ""),
                    path, pool, {});
  }
  const Nearness eight = nearness(path, {});
  std::filesystem::remove(path);
  EXPECT_GT(eight.least, 0.999) << eight.mean;
  EXPECT_GT(eight.mean, 0.9995);
}

}  // namespace
}  // namespace veery
