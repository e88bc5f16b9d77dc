// call_scanner.h: tool calls written as JSON, one object or a list of them, byte by byte.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace veery {

/// Finds name, id and arguments of each object, whatever the order of its members. Arguments are
/// given out as they stand as soon as the name is known; where they are a string that holds JSON,
/// that.
///
/// Forms: {"name": n, "arguments" or "parameters": {}, "id": i}, {"tool_name": ...}, {"type":
/// "function", "function": {...}}, {n: {}}.
class CallScanner {
 public:
  /// What a byte has led to; several at once.
  enum Step : unsigned {
    kNone = 0,
    kBegin = 1,  ///< name() and id() are known (the id only if it comes first)
    kEnd = 2,    ///< the object is over
    kFail = 4,   ///< this is no call, or broken JSON; takes nothing more
    kLeave = 8,  ///< outside of any object, and the byte is not part of a list: not taken
  };

  /// `bare`: nothing but its form tells that a text is a call, so it has to have a name and
  /// arguments and nothing else that calls do not have.
  explicit CallScanner(bool bare = false) : bare_(bare) {}
  unsigned feed(char c);

  /// The keys of objects that are calls.
  static std::vector<std::string> known_keys();

  const std::string& name() const { return name_; }
  const std::string& id() const { return id_; }
  /// What of the arguments has not been taken yet.
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
  int wraps_ = 0;                      // objects around the call: "function"
  int depth_ = 0;                      // of the value
  bool text_ = false, plain_ = false;  // the value is a string; a number or a word
  bool in_string_ = false, escape_ = false;
  bool begun_ = false, arguments_over_ = false, first_key_ = true;
  std::string key_, value_, name_, id_, arguments_, given_, escaped_;
};

/// The text of a JSON string from between its quotes; empty if it is malformed.
std::string unquoted(std::string_view body);

}  // namespace veery
