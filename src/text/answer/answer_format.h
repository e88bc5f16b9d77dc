// answer_format.h: the syntax of reasoning and tool calls in a model's answers: the marks of its
// family, detected in its chat template.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// The kind of text that follows a mark.
enum class AnswerMode : uint8_t {
  kStart,  ///< content, of which only whitespace has been read so far
  kContent,
  kReasoning,
  kHeader,     ///< header of a message: channel and recipient ("assistant to=functions.f")
  kRecipient,  ///< the name of a tool, or "all"
  kBetween,    ///< inside a list of calls, between two calls
  kCall,       ///< calls as JSON; any other text is a name
  kMaybeCall,  ///< JSON that may be a call or content
  kCode,       ///< calls as code, f(a=1) or call:f{a:1}, or as JSON
  kName,
  kId,
  kArguments,  ///< a JSON object, or keys and values between marks
  kKey,
  kValue,  ///< a string unless it can be read as another JSON value
  kText,   ///< a string value
  kJson,   ///< a JSON value
};
inline constexpr int kAnswerModes = 16;

/// A mark that ends any of the modes `from` (bit i: AnswerMode i) and begins mode `to`.
struct AnswerMark {
  std::string_view text;
  uint32_t from;
  AnswerMode to;
};

/// A part of the syntax that several models share; a row of the table in answer_format.cc.
struct AnswerFeature {
  std::string_view name;
  std::string_view evidence[2];  ///< a template that contains both has the feature
  std::vector<AnswerMark> marks;
  std::string_view unless = {};           ///< a template that contains this lacks the feature
  std::string_view quote = {};            ///< quotation mark of strings in code, besides ' and "
  std::string_view code_tool = {};        ///< tool that gets other code as argument "code"
  bool bare = false;                      ///< a JSON call may begin the answer without any mark
  AnswerMode first = AnswerMode::kStart;  ///< initial mode, unless the prompt determines it
  /// Text that ends reasoning and begins content, if no single mark does both.
  std::string_view reasoning_close = {};
};

/// The features of one model. Copyable; refers only to the static table.
class AnswerFormat {
 public:
  /// No features: all text is content.
  AnswerFormat() = default;
  /// Detects the features in the source of a chat template.
  static AnswerFormat of_template(std::string_view source);
  /// Returns the named features (comma-separated; "none": no feature). Throws kInput, listing all
  /// names, for an unknown one.
  static AnswerFormat named(std::string_view names);
  static std::vector<std::string_view> all_names();
  /// Returns this format with one more feature.
  AnswerFormat with(std::string_view name) const;
  /// Returns whether `token` is (part of) a mark that begins or ends reasoning.
  bool marks_reasoning(std::string_view token) const;

  std::string name() const;  ///< "think,tool_call"; "none"
  const std::vector<const AnswerFeature*>& features() const { return features_; }
  /// Returns whether the format has marks for reasoning.
  bool reasons() const;
  /// Returns whether a special token is (part of) a mark, so that the decoded text must include it.
  bool shows(std::string_view token) const;

 private:
  std::vector<const AnswerFeature*> features_;
};

}  // namespace veery
