// json_reader.h: a streaming JSON reader for documents of any size; it builds no tree.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

/// Limits the number of values in a tree. The default limits its overhead to about 100 MB beyond
/// the text.
struct JsonBudget {
  int64_t most = 1'000'000;
  int64_t used = 0;
};

class MappedFile;

/// The input of a reader: text, which is copied, or a mapped file, which is read in place.
class JsonText {
 public:
  JsonText(std::string_view text) : text_(text) {}    // any text converts
  JsonText(const std::string& text) : text_(text) {}  // NOLINT
  JsonText(const char* text) : text_(text) {}         // NOLINT
  JsonText(const MappedFile& file);                   // NOLINT
  /// Returns `text`, which must be followed by MappedFile::kPadding readable bytes.
  static JsonText padded_text(std::string_view text);

  std::string_view text() const { return text_; }
  bool padded() const { return padded_; }

 private:
  std::string_view text_;
  bool padded_ = false;  ///< bytes after the text are readable
};

/// A cursor over JSON text. Each call reads one value, key or bracket; if something else is found
/// it throws kFormat naming the file, the byte and what was expected. skip() checks syntax as
/// reading does. Invalid UTF-8, control characters in strings and encodings other than UTF-8 are
/// rejected before anything is read. Returned views live as long as the reader and the file.
class JsonReader {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  /// Rejects values nested deeper than `max_depth`.
  JsonReader(JsonText text, std::string what, int max_depth = 128);
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  /// Returns the kind of the next value without reading it.
  Kind peek();

  /// Usage: r.begin_object(); for (std::string_view key; r.next_key(key);) read the value.
  void begin_object();
  bool next_key(std::string_view& key);
  /// Usage: r.begin_array(); while (r.next_item()) read the item.
  void begin_array();
  bool next_item();

  std::string_view string();
  int64_t integer();
  double number();
  bool boolean();
  void null();

  /// Reads one value of any kind as a tree. Throws kLimit if the budget is exceeded.
  Json value(JsonBudget& budget);
  Json value();
  /// Skips one value of any kind.
  void skip();

  /// Throws unless only white space is left.
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
