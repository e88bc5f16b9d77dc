// Tests of the default alignment heads, for files that do not list them.
#include "import/alignment_heads.h"

#include <gtest/gtest.h>

namespace veery {
namespace {

TEST(AlignmentHeads, AreWithinTheModel) {
  for (const SpeechShape& shape :
       {SpeechShape{4, 6, 80, true}, SpeechShape{4, 6, 80, false}, SpeechShape{6, 8, 80, true},
        SpeechShape{12, 12, 80, false}, SpeechShape{24, 16, 80, true},
        SpeechShape{32, 20, 80, true}, SpeechShape{32, 20, 128, true},
        SpeechShape{4, 20, 128, true}, SpeechShape{3, 2, 10, false}}) {
    const std::vector<int64_t> heads = usual_alignment_heads(shape);
    ASSERT_FALSE(heads.empty());
    ASSERT_EQ(heads.size() % 2, 0U);
    for (size_t i = 0; i < heads.size(); i += 2) {
      EXPECT_LT(heads[i], shape.layers);
      EXPECT_LT(heads[i + 1], shape.heads);
    }
  }
}

TEST(AlignmentHeads, MatchTheListsOfKnownModels) {
  EXPECT_EQ(usual_alignment_heads({4, 6, 80, false}),
            (std::vector<int64_t>{1, 0, 2, 0, 2, 5, 3, 0, 3, 1, 3, 2, 3, 3, 3, 4}));
  EXPECT_NE(usual_alignment_heads({4, 6, 80, true}), usual_alignment_heads({4, 6, 80, false}));
  EXPECT_EQ(usual_alignment_heads({3, 2, 10, false}),
            (std::vector<int64_t>{1, 0, 1, 1, 2, 0, 2, 1}));
}

}  // namespace
}  // namespace veery
