// Other programs as backends: their answers and their failures.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "bridge/mlx_lm_engine.h"
#include "bridge/veery_engine.h"
#include "chat/chat.h"
#include "schedule/generate.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

// A program instead of mlx-lm; the Python code `body` answers `request`.
class Fake {
 public:
  explicit Fake(const std::string& body) {
    static std::atomic<int> count{0};
    path_ = fmt::format("{}backend-{}-{}.py", testing::TempDir(), getpid(), count++);
    std::ofstream(path_) << "import json, os, sys, time\n"
                            "def say(**fields):\n    print(json.dumps(fields), flush=True)\n"
                            "for line in sys.stdin:\n    request = json.loads(line)\n"
                            "    if request['op'] == 'load':\n"
                            "        say(ok=True, model_type='fake', vocab_size=7, layers=2)\n"
                            "        continue\n"
                         << body;
  }
  ~Fake() { std::remove(path_.c_str()); }
  MlxLmOptions options(int timeout = 60) const {
    return {.script = path_,
            .load_timeout = std::chrono::seconds(60),
            .token_timeout = std::chrono::seconds(timeout)};
  }

 private:
  std::string path_;
};

std::string message_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(MlxLmEngine, AnswersPieceByPiece) {
  const Fake fake(
      "    for piece in [request['prompt'], ' ', str(request['max_tokens'])]:\n"
      "        say(text=piece)\n"
      "    say(done=True, finish_reason='stop', prompt_tokens=3, tokens=2)\n");
  MlxLmEngine mlx_lm("anything", fake.options());
  TextEngine& backend = mlx_lm;
  EXPECT_EQ(backend.info().model_type, "fake");
  EXPECT_EQ(backend.info().vocabulary, 7);
  std::vector<std::string> pieces;
  for (int turn = 0; turn < 2; ++turn) {
    const EngineAnswer answer =
        backend.generate("a\nb", {.max_tokens = 5}, [&](std::string_view piece) {
          pieces.emplace_back(piece);
          return true;
        });
    EXPECT_EQ(answer.text, "a\nb 5");
    EXPECT_EQ(answer.finish_reason, "stop");
    EXPECT_EQ(answer.prompt_tokens, 3);
  }
  EXPECT_EQ(pieces.size(), 6U);
}

TEST(MlxLmEngine, EndsAnAnswerThatNobodyWants) {
  const Fake fake(
      "    if request['op'] == 'cancel':\n        continue\n"
      "    for i in range(3):\n        say(text=str(i))\n"
      "    line = sys.stdin.readline()\n"
      "    say(done=True, finish_reason=json.loads(line)['op'], prompt_tokens=1, tokens=3)\n");
  MlxLmEngine mlx_lm("anything", fake.options());
  TextEngine& backend = mlx_lm;
  const EngineAnswer answer =
      backend.generate("a", {}, [](std::string_view piece) { return piece != "1"; });
  EXPECT_EQ(answer.text, "01");
  EXPECT_EQ(answer.finish_reason, "cancelled");
}

TEST(MlxLmEngine, AThrowingCallbackLeavesTheNextAnswerWhole) {
  const Fake fake(
      "    if request['op'] == 'cancel':\n        continue\n"
      "    for piece in request['prompt']:\n        say(text=piece)\n"
      "    say(done=True, finish_reason='stop', prompt_tokens=1, tokens=3)\n");
  MlxLmEngine mlx_lm("anything", fake.options());
  TextEngine& backend = mlx_lm;
  EXPECT_THROW(
      backend.generate("abc", {}, [](std::string_view) -> bool { throw std::runtime_error("no"); }),
      std::runtime_error);
  EXPECT_EQ(backend.generate("def", {}).text, "def");
}

TEST(MlxLmEngine, ErrorsAreReportedAndTheNextRequestWorks) {
  const Fake fake(
      "    if request['prompt'] == 'bad':\n        say(error='ValueError: no')\n        continue\n"
      "    say(done=True, finish_reason='length', prompt_tokens=1, tokens=0)\n");
  MlxLmEngine mlx_lm("anything", fake.options());
  TextEngine& backend = mlx_lm;
  EXPECT_EQ(message_of([&] { backend.generate("bad", {}); }, ErrorKind::kInput),
            "mlx_lm: ValueError: no");
  EXPECT_EQ(backend.generate("good", {}).finish_reason, "length");
}

TEST(MlxLmEngine, ProgramsThatFailAreNamed) {
  const auto fails = [](const std::string& body, int timeout = 60) {
    const Fake fake(body);
    MlxLmEngine mlx_lm("anything", fake.options(timeout));
    TextEngine& backend = mlx_lm;
    const std::string first = message_of([&] { backend.generate("a", {}); }, ErrorKind::kIo);
    EXPECT_NE(message_of([&] { backend.generate("a", {}); }, ErrorKind::kIo).find("has ended"),
              std::string::npos);
    return first;
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(fails("    print('broken', file=sys.stderr); sys.exit(3)\n"),
      "python3: ended with status 3; its last error: broken");
  has(fails("    os.kill(os.getpid(), 9)\n"), "ended by signal 9");
  has(fails("    time.sleep(60)\n", 1), "no output for 1 seconds");
  has(fails("    print('x' * (3 << 20), flush=True); time.sleep(60)\n"), "longer than 1048576");
  has(fails("    print('Loading model ...', flush=True); time.sleep(60)\n"),
      "its output is 'Loading model ...', expected a JSON object");
}

TEST(MlxLmEngine, ProgramsThatCannotStartAreNamed) {
  const std::string gone =
      message_of([] { MlxLmEngine("x", {.python = "/no/python"}); }, ErrorKind::kIo);
  EXPECT_NE(gone.find("/no/python: cannot start the program"), std::string::npos) << gone;
  // bridge.py, with a Python without packages (-S, -I).
  const std::string script = fmt::format("{}bare-python-{}", testing::TempDir(), getpid());
  std::ofstream(script) << "#!/bin/sh\nexec python3 -S -I \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const std::string bare =
      message_of([&] { MlxLmEngine("x", {.python = script}); }, ErrorKind::kInput);
  EXPECT_NE(bare.find("No module named 'mlx_lm'"), std::string::npos) << bare;
  std::remove(script.c_str());
}

TEST(VeeryEngine, GivesWhatTheSchedulerGives) {
  const test::TinyModel tiny;
  Model model(tiny.path(), {.threads = 1});
  const std::vector<int32_t> prompt = encode_prompt(model.tokenizer(), "once upon");
  std::string expected;
  {
    Scheduler scheduler(model, single_user());
    GenerateRequest request{.prompt = prompt};
    request.options.max_tokens = 9;
    request.options.sampling.temperature = 0;
    expected = generate(scheduler, request).text;
  }
  VeeryEngine own(model);
  TextEngine& backend = own;
  EXPECT_EQ(backend.name(), "veery");
  EXPECT_EQ(backend.info().layers, model.config().layers);
  EXPECT_EQ(backend.generate("once upon", {.max_tokens = 9}).text, expected);
  int pieces = 0;
  const EngineAnswer cut = backend.generate("once upon", {.max_tokens = 9},
                                            [&](std::string_view) { return ++pieces < 1; });
  EXPECT_EQ(cut.finish_reason, "cancelled");
  EXPECT_EQ(pieces, 1);
}

}  // namespace
}  // namespace veery
