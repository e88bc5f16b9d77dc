// answer_format.h: how a model writes reasoning and tool calls: the marks of its family, found in
// its chat template.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// What the text after a mark is.
enum class AnswerMode : uint8_t {
  kStart,  ///< content of which nothing but white space has come yet
  kContent,
  kReasoning,
  kHeader,     ///< channel and recipient of a message: "assistant to=functions.f"
  kRecipient,  ///< the name of a tool, or "all"
  kBetween,    ///< in a list of calls, outside of one
  kCall,       ///< calls as JSON; other text is a name
  kMaybe,      ///< JSON: calls, or content that looks like them
  kCode,       ///< calls as code, f(a=1) or call:f{a:1}; or as JSON
  kName,
  kId,
  kArguments,  ///< a JSON object, or keys and values with marks around them
  kKey,
  kValue,  ///< a string unless it reads as something else
  kText,   ///< a value that is a string
  kJson,   ///< a value that is JSON
};
inline constexpr int kAnswerModes = 16;

/// `text` ends what is in one of the modes `from` (bit i: AnswerMode i) and begins `to`.
struct AnswerMark {
  std::string_view text;
  uint32_t from;
  AnswerMode to;
};

/// What a family of models does in the same way; a row of the table in answer_format.cc.
struct AnswerFeature {
  std::string_view name;
  std::string_view evidence[2];  ///< a template that contains both has the feature
  std::vector<AnswerMark> marks;
  std::string_view unless = {};           ///< a template that contains this has not
  std::string_view quote = {};            ///< around strings in code, besides ' and "
  std::string_view code_tool = {};        ///< gets code that is no call, as its argument "code"
  bool bare = false;                      ///< an answer that is a JSON call is one without any mark
  AnswerMode first = AnswerMode::kStart;  ///< where an answer begins, if the prompt does not tell
  /// Ends reasoning and begins content where no single mark does.
  std::string_view reasoning_close = {};
};

/// The features of one model. A value; refers to the table only.
class AnswerFormat {
 public:
  /// No feature: all text is content.
  AnswerFormat() = default;
  /// What the source of a chat template shows.
  static AnswerFormat of_template(std::string_view source);
  /// Features by name, separated by commas; "none" is none. Throws kInput listing all names.
  static AnswerFormat named(std::string_view names);
  static std::vector<std::string_view> all_names();
  /// This format with a further feature, by its name.
  AnswerFormat with(std::string_view name) const;
  /// Whether `token` is (part of) a mark that begins or ends reasoning.
  bool marks_reasoning(std::string_view token) const;

  std::string name() const;  ///< "think,tool_call"; "none"
  const std::vector<const AnswerFeature*>& features() const { return features_; }
  /// Whether it has marks of reasoning.
  bool reasons() const;
  /// Whether a special token is (part of) a mark, so that the text must show it.
  bool shows(std::string_view token) const;

 private:
  std::vector<const AnswerFeature*> features_;
};

}  // namespace veery
