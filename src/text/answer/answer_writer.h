// answer_writer.h: a parsed answer, and its increments for streaming.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace veery {

struct ToolCall {
  std::string id;  ///< as the model wrote it; empty if its format has no ids
  std::string name;
  std::string arguments;  ///< JSON text
  bool complete = false;  ///< the arguments were not truncated
  bool valid = false;     ///< the arguments are a JSON object
};

struct ParsedAnswer {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  bool broken = false;  ///< the answer deviates from its format or is truncated
};

/// Returns whether a character may occur in the name of a tool.
bool is_name_character(char c);

/// Returns whether the schema of a tool's arguments permits only strings for argument `name`. Such
/// a value is read as a string whatever it looks like.
bool takes_text(const Json& parameters, std::string_view name);

/// Returns the answer as a message for a chat template: role, content (null if the answer has calls
/// but no content), and reasoning_content and tool_calls if present.
Json to_message(const ParsedAnswer& answer);

/// An increment of a ParsedAnswer. The concatenated texts of one kind (for arguments: of one call)
/// equal the text in the ParsedAnswer.
struct AnswerDelta {
  enum class Kind { kContent, kReasoning, kCall, kArguments, kCallEnd };
  Kind kind = Kind::kContent;
  std::string text;  ///< kCall: the name
  size_t call = 0;   ///< index of the call (kCall, kArguments, kCallEnd)
};

/// Builds a ParsedAnswer together with its increments. Converts keys and values between marks to a
/// JSON object.
class AnswerWriter {
 public:
  /// `tools`: functions in the form that chat templates take, or null. Their schemas decide which
  /// values are strings.
  explicit AnswerWriter(Json tools) : tools_(std::move(tools)) {}

  void text(AnswerDelta::Kind kind, std::string_view text);
  void broken() { answer_.broken = true; }
  /// Returns whether a tool of that name exists; true if no tools are known.
  bool knows(std::string_view name) const;

  bool in_call() const { return in_call_; }
  /// Begins a call. Returns false if `name` is not a valid tool name.
  bool begin(std::string_view name, std::string_view id);
  void arguments(std::string_view text);
  /// How a value is converted: as a string, as JSON, or depending on its text.
  enum class Value { kText, kJson, kGuess };
  void begin_value(std::string_view key, Value kind);
  void value(std::string_view text);
  void end_value();
  void end(bool complete);

  /// Discards everything written. Requires that no call is open.
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
