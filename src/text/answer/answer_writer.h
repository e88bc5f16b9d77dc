// answer_writer.h: an answer taken apart, and the pieces of it as they become certain.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace veery {

struct ToolCall {
  std::string id;  ///< as the model wrote it; empty where its format has none
  std::string name;
  std::string arguments;  ///< JSON text
  bool complete = false;  ///< the arguments came to their end
  bool valid = false;     ///< they are one JSON object
};

struct ParsedAnswer {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  bool broken = false;  ///< something was not as its format has it, or the end is missing
};

/// Whether a character can be part of the name of a tool.
bool is_name_character(char c);

/// Whether the schema of a tool's arguments says that an argument is a string and nothing else. It
/// is read as one then, whatever it looks like.
bool takes_text(const Json& parameters, std::string_view name);

/// The answer as a message for a chat template: role, content (null if there is none beside calls),
/// and reasoning_content and tool_calls where there are any.
Json to_message(const ParsedAnswer& answer);

/// What became certain: all texts of a kind (and, for arguments, of a call), joined, are those of
/// ParsedAnswer.
struct AnswerDelta {
  enum class Kind { kContent, kReasoning, kCall, kArguments, kCallEnd };
  Kind kind = Kind::kContent;
  std::string text;  ///< of kCall the name
  size_t call = 0;   ///< number of the call that kCall, kArguments and kCallEnd are about
};

/// Writes both at once, and turns keys and values into a JSON object.
class AnswerWriter {
 public:
  /// `tools`: functions as chat templates take them, or null; their parameters tell which values
  /// are strings.
  explicit AnswerWriter(Json tools) : tools_(std::move(tools)) {}

  void text(AnswerDelta::Kind kind, std::string_view text);
  void broken() { answer_.broken = true; }
  /// Whether there is a tool of that name; true where none are known.
  bool knows(std::string_view name) const;

  bool in_call() const { return in_call_; }
  /// False for what cannot be the name of a tool.
  bool begin(std::string_view name, std::string_view id);
  void arguments(std::string_view text);
  /// How a value is written: as a string, as JSON, or as what its text looks like.
  enum class Value { kText, kJson, kGuess };
  void begin_value(std::string_view key, Value kind);
  void value(std::string_view text);
  void end_value();
  void end(bool complete);

  /// Drops all that has been written; no call may be open.
  void forget() {
    deltas_.clear();
    answer_ = {};
  }

  std::vector<AnswerDelta> take() { return std::exchange(deltas_, {}); }
  const ParsedAnswer& answer() const { return answer_; }

 private:
  void add(AnswerDelta::Kind kind, std::string_view text);
  bool is_string(std::string_view key) const;

  Json tools_;
  ParsedAnswer answer_;
  std::vector<AnswerDelta> deltas_;
  bool in_call_ = false, in_value_ = false, has_values_ = false;
  Value kind_ = Value::kGuess;
  std::string held_;
};

}  // namespace veery
