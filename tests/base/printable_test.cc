// Tests of printing untrusted text in messages, tables and answers.
#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/utf8.h"

namespace veery {
namespace {

TEST(Printable, KeepsPlainTextAndEscapesControlCharacters) {
  EXPECT_EQ(printable("blk.0.attn_q.weight \u65e5\u672c \U0001F600 \\w+"),
            "blk.0.attn_q.weight \u65e5\u672c \U0001F600 \\w+");
  EXPECT_EQ(printable("a\nb\tc\rd\x1b[31m\x7f"), R"(a\nb\tc\rd\x1b[31m\x7f)");
  EXPECT_EQ(printable(std::string("\0", 1)), R"(\x00)");
  EXPECT_EQ(printable("\u0085\u009b"), R"(\x85\x9b)");                        // C1
  EXPECT_EQ(printable("a\u202eb\u2066c\u200f"), R"(a\u202eb\u2066c\u200f)");  // direction marks
  EXPECT_EQ(printable("a\u2028b\u2029\ufeff"), R"(a\u2028b\u2029\ufeff)");
  EXPECT_EQ(printable("\xff\xfe\xc3"), "\uFFFD\uFFFD\uFFFD");
}

TEST(Printable, RespectsTheLimitWithoutSplittingCharacters) {
  EXPECT_EQ(printable(std::string(80, 'a')), std::string(80, 'a'));
  EXPECT_EQ(printable(std::string(81, 'a')), std::string(77, 'a') + "...");
  EXPECT_EQ(printable("\u65e5\u672c\u65e5", 9), "\u65e5\u672c\u65e5");
  EXPECT_EQ(printable("\u65e5\u672c\u65e5\u672c", 10), "\u65e5\u672c...");
  EXPECT_EQ(printable("ab\x1b\x1b\x1b", 10), R"(ab\x1b...)");
  EXPECT_EQ(printable("abc", 2), "...");
  for (size_t most = 3; most < 40; ++most) {
    const std::string text = printable("a\x1b\u65e5\n\u202e\U0001F600 and some more words", most);
    EXPECT_LE(text.size(), most);
    EXPECT_EQ(valid_utf8(text), text);
    EXPECT_EQ(printable(text, most), text);
  }
  EXPECT_EQ(printable(std::string(size_t{1} << 24, 'a')).size(), 80U);
}

TEST(Printable, TableCellsAreUnambiguous) {
  EXPECT_EQ(escaped("a\\nb\n"), R"(a\\nb\n)");
  EXPECT_EQ(escaped(std::string(1000, 'a')).size(), 1000U);
}

TEST(Printable, TerminalTextKeepsLineBreaks) {
  EXPECT_EQ(terminal_text("a\n\tb\r\x1b[2J\u009b"), "a\n\tb\\r\\x1b[2J\\x9b");
}

TEST(Printable, PrintableJsonKeepsTheValue) {
  const Json value = {{"a\u009b", "x\u202e\x7f\x1b\n\u65e5"}};
  const std::string text = printable_json(dump_json(value, 2));
  EXPECT_EQ(parse_json(text, "text"), value);
  EXPECT_EQ(text, "{\n  \"a\\u009b\": \"x\\u202e\\u007f\\u001b\\n\u65e5\"\n}");
}

}  // namespace
}  // namespace veery
