// call_scanner.h: incremental scanner for tool calls written as JSON.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace veery {

/// Extracts name, id and arguments from one JSON object or a list of objects, byte by byte and for
/// any order of members. Arguments are available verbatim as soon as the name is known; arguments
/// that are a string containing JSON are unquoted.
///
/// Accepted forms: {"name": n, "arguments" or "parameters": {}, "id": i}, {"tool_name": ...},
/// {"type": "function", "function": {...}}, {n: {}}.
class CallScanner {
 public:
  /// Events caused by a byte; several may be combined.
  enum Step : unsigned {
    kNone = 0,
    kBegin = 1,  ///< name() and id() are known (the id only if it precedes)
    kEnd = 2,    ///< the object ended
    kFail = 4,   ///< not a call, or malformed JSON; further bytes are ignored
    kLeave = 8,  ///< a byte outside of objects that is not part of a list; not consumed
  };

  /// `bare`: no mark identifies the text as a call, so the object must have a name and arguments
  /// and may have only the keys of calls.
  explicit CallScanner(bool bare = false) : bare_(bare) {}
  unsigned feed(char c);

  /// Returns the keys that occur in calls.
  static std::vector<std::string> known_keys();

  const std::string& name() const { return name_; }
  const std::string& id() const { return id_; }
  /// Returns and clears the arguments scanned since the last call of this function.
  std::string take_arguments() { return std::exchange(arguments_, {}); }
  bool in_string() const { return in_string_; }
  bool in_object() const { return state_ != State::kOutside; }
  bool begun() const { return begun_; }
  bool arguments_over() const { return arguments_over_; }

 private:
  enum class State {
    kOutside,
    kBeforeKey,
    kKey,
    kAfterKey,
    kBeforeValue,
    kValue,
    kAfterValue,
    kFailed
  };
  enum class Role { kOther, kName, kId, kArguments, kQuoted, kNamed };

  unsigned outside(char c);
  unsigned before_value(char c);
  unsigned in_value(char c);
  unsigned value_over();
  unsigned object_over();
  unsigned fail();
  unsigned begin();
  bool text_over(char c);
  void unquote(char c);

  bool bare_;
  State state_ = State::kOutside;
  Role role_ = Role::kOther;
  int wraps_ = 0;                      // nesting of "function" objects
  int depth_ = 0;                      // nesting inside the value
  bool text_ = false, plain_ = false;  // the value is a string; a number or literal
  bool in_string_ = false, escape_ = false;
  bool begun_ = false, arguments_over_ = false, first_key_ = true;
  std::string key_, value_, name_, id_, arguments_, given_, escaped_;
};

/// Returns the text of a JSON string given without its quotes; empty if it is malformed.
std::string unquoted(std::string_view body);

}  // namespace veery
