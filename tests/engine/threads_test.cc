// Several workers give the bits of one worker. Needs no real weights, so the sanitizer presets run
// it too.
#include <gtest/gtest.h>

#include "support/one_sequence.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using test::TinyModel;

struct Result {
  std::vector<float> prompt;     ///< logits after the prompt
  std::vector<int32_t> decoded;  ///< greedy tokens after it
  bool operator==(const Result&) const = default;
};

Result result_of(const std::string& path, int threads, int32_t chunk) {
  Model model(path, {.threads = threads});
  test::OneSequence session(model);
  session.set_chunk(chunk);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 37; ++i) ids.push_back(i * 7 % 256);
  session.feed(ids);
  Result result{{session.logits().begin(), session.logits().end()}, std::vector<int32_t>(19)};
  session.decode_greedy(ids.front(), result.decoded);
  return result;
}

TEST(Threads, ComputeWhatOneAloneComputes) {
  const TinyModel file;
  const Result alone = result_of(file.path(), 1, 64);
  EXPECT_NE(alone.prompt.front(), alone.prompt.back());
  for (const int threads : {2, 3})
    for (const int32_t chunk : {1, 5, 64})
      EXPECT_EQ(result_of(file.path(), threads, chunk), alone)
          << threads << " threads, chunks of " << chunk;
}

}  // namespace
}  // namespace veery
