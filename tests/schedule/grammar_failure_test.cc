// A grammar that takes too long ends only its own answer.
#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/generate.h"
#include "schedule/scheduler.h"
#include "support/tiny_model.h"
#include "text/grammar/grammar.h"

namespace veery {
namespace {

TEST(GrammarFailure, EndsItsOwnAnswerOnly) {
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  const test::TinyModel file("", true, 11, 4096);
  Model model(file.path(), {.threads = 2, .context = 4096});
  GrammarCompiler grammars(model.tokenizer(), model.config().vocab);
  Scheduler scheduler(model, {.slots = 2});
  GenerateRequest ambiguous{.prompt = {test::TinyModel::kBos, 'a'},
                            .grammar = grammars.ebnf("root ::= s\ns ::= s s | [a-z ] | \"\"")};
  ambiguous.options.max_tokens = 3000;
  ambiguous.options.ignore_eos = true;
  ambiguous.options.sampling.bias = {{test::TinyModel::kEos, -1000}};
  GenerateRequest plain{.prompt = {test::TinyModel::kBos, 'b'}};
  plain.options.max_tokens = 400;
  plain.options.ignore_eos = true;
  const auto bad = scheduler.submit(ambiguous), good = scheduler.submit(plain);
  AnswerPart part;
  try {
    while (bad->next(part)) {
    }
    ADD_FAILURE() << "it made all of its tokens";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit) << error.what();
  }
  while (good->next(part)) {
  }
  EXPECT_EQ(good->result().ids.size(), 400U);
}

}  // namespace
}  // namespace veery
