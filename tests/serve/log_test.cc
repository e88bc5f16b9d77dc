// The log: one line for each event, whatever its values are; a full disk only loses lines.
#include "serve/observe/log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "support/sanitized.h"

namespace veery::serve {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class LogFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::temp_directory_path() / ("log_test_" + std::to_string(getpid()));
  std::string file_ = (folder_ / "log").string();
};

TEST(LogLine, TextIsReadByPeopleAndPrograms) {
  EXPECT_EQ(log_line(LogFormat::kText, 1700000000123, LogLevel::kInfo, "request",
                     {{"id", "req_1"}, {"status", 200}, {"ms", 1.5}, {"key", "two words"}}),
            "2023-11-14T22:13:20.123Z info request id=req_1 status=200 ms=1.5 key=\"two words\"\n");
}

TEST(LogLine, NoValueLooksLikeAnotherLine) {
  const std::string evil = "a\n2023 error \x1b[31m\"b\" c\\d \xff\xc2\x85\u202e";
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line =
        log_line(format, 0, LogLevel::kWarn, evil, {{"path", evil}, {"x", ""}});
    EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
    EXPECT_EQ(line.find("\xc2\x85"), std::string::npos) << line;
    EXPECT_EQ(line.find("\u202e"), std::string::npos) << line;
  }
  const std::string text = log_line(LogFormat::kText, 0, LogLevel::kWarn, "m", {{"path", evil}});
  EXPECT_NE(text.find(R"(path="a\n2023 error \x1b[31m\"b\" c\\d )"), std::string::npos) << text;
  const Json json = parse_json(
      log_line(LogFormat::kJson, 0, LogLevel::kWarn, "m", {{"path", "a\n\"\x1b"}}), "a line");
  EXPECT_EQ(json.at("path").string(), "a\n\"\x1b");
  EXPECT_EQ(json.at("level").string(), "warn");
}

TEST(LogLine, ARequestHasItsFields) {
  RequestRecord record;
  record.id = "x";
  record.client = "127.0.0.1";
  record.method = "POST";
  record.path = "/chat/completions";
  record.route = "/v1/chat/completions";
  record.status = 200;
  record.request_text = "secret";
  const std::string line =
      log_line(LogFormat::kText, 0, LogLevel::kInfo, "request", request_fields(record));
  EXPECT_NE(line.find("route=/v1/chat/completions path=/chat/completions status=200 bytes=0"),
            std::string::npos)
      << line;
  for (const char* absent : {"secret", "key=", "model=", "tokens", "finish", "error"})
    EXPECT_EQ(line.find(absent), std::string::npos) << line;
}

TEST(RequestIds, OnlySaneOnesAreTaken) {
  EXPECT_EQ(request_id("abc-1.2/x"), "abc-1.2/x");
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\"b"), std::string("a\\b"),
        std::string("a\nb"), std::string("\xc3\xa9"), std::string(201, 'a')}) {
    EXPECT_TRUE(request_id(bad).starts_with("req_")) << bad;
    EXPECT_NE(request_id(bad), request_id(bad));
  }
}

TEST_F(LogFiles, LevelsAreKeptAndFilesAppendedToAndOpenedAnew) {
  std::ofstream(file_) << "before\n";
  {
    Log log({.level = LogLevel::kWarn, .file = file_});
    log.note(LogLevel::kInfo, "not this");
    log.note(LogLevel::kWarn, "first");
    while (text_of(file_).find("first") == std::string::npos) usleep(1000);
    fs::rename(file_, file_ + ".1");
    log.reopen();
    while (!fs::exists(file_)) usleep(1000);
    log.note(LogLevel::kError, "second");
  }
  EXPECT_TRUE(text_of(file_ + ".1").starts_with("before\n"));
  EXPECT_NE(text_of(file_ + ".1").find("first"), std::string::npos);
  EXPECT_EQ(text_of(file_ + ".1").find("not this"), std::string::npos);
  EXPECT_NE(text_of(file_).find("error second"), std::string::npos);
}

TEST_F(LogFiles, AFullDiskCostsLinesThatAreCounted) {
  Log log({.file = "/dev/full"});
  for (int i = 0; i < 10; ++i) log.note(LogLevel::kInfo, "line");
  for (int i = 0; i < 5000 && log.lost() < 10; ++i) usleep(1000);
  EXPECT_EQ(log.lost(), 10);
}

// Escapes make a line six times as long as its texts, longer than the queue of the log.
TEST_F(LogFiles, LongTextsAreCutAndNoLineIsLost) {
  constexpr size_t kBytes = size_t{3} << 20;
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    RequestRecord record;
    record.keeps_texts = true;
    record.request_text = std::string(kBytes, '\x01');
    for (size_t i = 0; i < kBytes; i += 1024) record.answer_text += std::string(1024, '\x02');
    EXPECT_LE(record.answer_text.text().size(), LoggedText::kMostBytes);
    {
      Log log({.format = format, .file = file_});
      log.request(record);
    }
    const std::string text = text_of(file_);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1);
    EXPECT_LE(text.size(), Log::kMostLine);
    EXPECT_GT(text.size(), Log::kMostLine / 4);
    for (const char* name : {"request_bytes", "answer_bytes"})
      EXPECT_NE(
          text.find(name + std::string(format == LogFormat::kText ? "=3145728" : "\":3145728")),
          std::string::npos);
    fs::remove(file_);
  }
}

// Leaves no free block of 64 KiB or more to this process.
class ShortMemory {
 public:
  ShortMemory() {
    blocks_.reserve(1 << 20);
    ::getrlimit(RLIMIT_AS, &before_);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit now{pages * static_cast<size_t>(::getpagesize()), before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &now);
    while (void* block = std::malloc(size_t{64} << 10)) blocks_.push_back(block);
  }
  ShortMemory(const ShortMemory&) = delete;
  ~ShortMemory() {
    for (void* block : blocks_) std::free(block);
    ::setrlimit(RLIMIT_AS, &before_);
  }

 private:
  rlimit before_{};
  std::vector<void*> blocks_;
};

TEST_F(LogFiles, ARequestForWhichMemoryIsShortHasALine) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer needs more addresses";
  RequestRecord record;
  record.id = "req_1";
  record.status = 503;
  record.keeps_texts = true;
  record.request_text = std::string(LoggedText::kMostBytes, '\x01');
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    {
      Log log({.format = format, .file = file_});
      const ShortMemory short_memory;
      log.request(record);
    }
    const std::string text = text_of(file_);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1);
    if (format == LogFormat::kText) {
      EXPECT_TRUE(text.ends_with("Z error memory is short id=req_1 status=503\n"));
    } else {
      const Json json = parse_json(text, "a line");
      EXPECT_EQ(json.at("message").string(), "memory is short");
      EXPECT_EQ(json.at("id").string(), "req_1");
      EXPECT_EQ(json.at("status").get<int64_t>(), 503);
    }
    fs::remove(file_);
  }
}

TEST_F(LogFiles, APipeThatNobodyReadsHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::signal(SIGPIPE, SIG_IGN);
  {
    Log log({.file = "/proc/self/fd/" + std::to_string(ends[1])});
    const std::string text(2000, 'x');
    for (int i = 0; i < 8000; ++i) log.note(LogLevel::kInfo, text);
    EXPECT_GT(log.lost(), 0) << "no more lines wait than fit into its memory";
    close(ends[0]);
    close(ends[1]);
  }
}

TEST_F(LogFiles, FilesThatCannotBeOpenedAreNamed) {
  try {
    const Log log({.file = (folder_ / "none" / "log").string()});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("none/log"), std::string::npos);
  }
  EXPECT_THROW(const Log log({.file = folder_.string()}), Error);
}

}  // namespace
}  // namespace veery::serve
