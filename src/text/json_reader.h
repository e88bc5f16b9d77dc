// json_reader.h: reads large JSON files piece by piece, without building a tree of them.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace veery {

/// A cursor over JSON text. Each call reads one value, key or bracket, and throws kFormat naming
/// the file, the place and what was expected if something else is there. Views are of the text, or
/// live as long as the reader where the text has escapes.
class JsonReader {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  /// `text` must live as long as the reader. Deeper values than `max_depth` are refused.
  JsonReader(std::string_view text, std::string what, int max_depth = 128);

  /// What comes next.
  Kind peek();

  /// Both as in: r.begin_object(); for (std::string_view key; r.next_key(key);) read the value.
  void begin_object();
  bool next_key(std::string_view& key);
  /// Both as in: r.begin_array(); while (r.next_item()) read the item.
  void begin_array();
  bool next_item();

  std::string_view string();
  int64_t integer();
  double number();
  bool boolean();
  void null();

  /// Reads one value of any kind and returns its text.
  std::string_view raw();
  void skip() { raw(); }

  /// Throws if anything but white space is left.
  void finish();

  [[noreturn]] void fail(std::string_view expected) const;

 private:
  char current();
  void expect(char c, std::string_view what);
  void literal(std::string_view word);
  bool next_of(char close);
  void skip_string();
  std::string_view number_text();
  std::string_view unescaped(size_t begin);
  uint32_t hex_digits();

  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
  int depth_ = 0, max_depth_;
  bool first_ = false;  // no item of the innermost container has been read
  std::deque<std::string> arena_;
};

}  // namespace veery
