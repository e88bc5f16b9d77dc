// json_reader.h: reads JSON of any size piece by piece, without building a tree of it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

/// How many values a tree may have: by default so that it takes a hundred megabytes more than its
/// text at most.
struct JsonBudget {
  int64_t most = 1'000'000;
  int64_t used = 0;
};

class MappedFile;

/// What a reader reads: text, which it copies, or a file, which it reads where it is mapped.
class JsonText {
 public:
  JsonText(std::string_view text) : text_(text) {}    // NOLINT: all text is meant
  JsonText(const std::string& text) : text_(text) {}  // NOLINT
  JsonText(const char* text) : text_(text) {}         // NOLINT
  JsonText(const MappedFile& file);                   // NOLINT
  /// `text` with as many bytes that may be read behind it as a MappedFile has.
  static JsonText padded_text(std::string_view text);

  std::string_view text() const { return text_; }
  bool padded() const { return padded_; }

 private:
  std::string_view text_;
  bool padded_ = false;  ///< bytes behind the text may be read
};

/// A cursor over JSON text. Each call reads one value, key or bracket, and throws kFormat naming
/// the file, the byte and what was expected if something else is there. What is stepped over is
/// checked like what is read; invalid UTF-8, control characters in strings and other encodings are
/// refused before anything is read. Views live as long as the reader and the file.
class JsonReader {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  /// Deeper values than `max_depth` are refused.
  JsonReader(JsonText text, std::string what, int max_depth = 128);
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

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

  /// Reads one value of any kind as a tree. Throws kLimit if that is beyond the budget.
  Json value(JsonBudget& budget);
  Json value();
  /// Steps over one value of any kind.
  void skip();

  /// Throws if anything but white space is left.
  void finish();

  [[noreturn]] void fail(std::string_view expected) const;

 private:
  struct Cursor;

  void start(std::string_view text, bool in_place);
  template <typename Container>
  Container begin(Kind kind, std::string_view expected);
  void descend();
  void ascend();
  Json object_value(JsonBudget& budget);
  Json number_value();
  [[noreturn]] void fail_in_object() const;
  [[noreturn]] void fail_at(size_t at, std::string_view expected) const;

  std::string what_;
  int depth_ = 0, max_depth_;
  std::unique_ptr<Cursor> cursor_;
};

}  // namespace veery
