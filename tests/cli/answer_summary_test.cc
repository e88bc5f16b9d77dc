// The summary line after an answer: of one part, and of several after a context shift.
#include "cli/output/answer_summary.h"

#include <gtest/gtest.h>

namespace veery::cli {
namespace {

Generation part(size_t prompt, size_t cached, size_t answer, FinishReason finish) {
  Generation made;
  made.ids.assign(answer, 7);
  made.finish = finish;
  made.prompt_tokens = prompt;
  made.reused_tokens = cached;
  made.prompt_seconds = 0.5;
  made.decode_seconds = 2;
  return made;
}

TEST(AnswerSummary, OnePartHasTheRatesOfItsGeneration) {
  const Generation made = part(30, 0, 11, FinishReason::kStop);
  AnswerSummary summary;
  summary.add(made);
  EXPECT_EQ(summary.prompt_rate(), made.prompt_rate());
  EXPECT_EQ(summary.decode_rate(), made.decode_rate());
  EXPECT_EQ(summary_line(summary, 0.25, 1500000),
            "[prompt 30 tokens, 60.0 tok/s | answer 11 tokens, 5.0 tok/s | load 0.25 s | peak "
            "memory 1.5 MB]\n");
}

TEST(AnswerSummary, PartsAfterAContextShiftAreSummed) {
  AnswerSummary summary;
  summary.add(part(30, 5, 41, FinishReason::kLength));
  Generation last = part(70, 2, 61, FinishReason::kStop);
  last.accepted_tokens = 9;
  summary.add(last);
  EXPECT_EQ(summary_line(summary, 0.25, 1500000),
            "[prompt 100 tokens (+7 cached), 100.0 tok/s | answer 102 tokens (9 drafted) in 2 "
            "parts, 25.0 tok/s | load 0.25 s | peak memory 1.5 MB]\n");
}

TEST(AnswerSummary, TheEndOfTheLastPartIsNoted) {
  AnswerSummary summary;
  summary.add(part(1, 0, 0, FinishReason::kStop));
  EXPECT_EQ(summary.decode_rate(), 0);
  summary.add(part(1, 0, 1, FinishReason::kCancelled));
  EXPECT_EQ(summary.decode_rate(), 0);
  EXPECT_NE(summary_line(summary, 0, 0).find("0.0 tok/s, stopped |"), std::string::npos);
  summary.add(part(1, 0, 1, FinishReason::kLength));
  EXPECT_NE(summary_line(summary, 0, 0).find(", length reached |"), std::string::npos);
}

}  // namespace
}  // namespace veery::cli
