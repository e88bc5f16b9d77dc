// response_tools.h: tools of OpenAI's Responses API as functions, and calls back to its items.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery::serve {

/// The tools of one request.
///
/// Models call functions, so a custom tool is a function with one text, `input`, and a tool of a
/// namespace is a function whose name begins with that of the namespace. Tools of other types run
/// at a provider; they are left out.
class ResponseTools {
 public:
  struct Tool {
    std::string name, space;  ///< the client's names; `space` may be empty
    bool custom = false;
  };

  /// Adds the items of a list of tools. `where`: its place in the request. `shown`: the prompt
  /// describes them. Throws ApiError naming a tool that has no name.
  void add(const Json& tools, const std::string& where, bool shown);

  /// Functions as templates take them, or null.
  const Json& shown() const { return shown_; }
  const Json& callable() const { return callable_; }
  /// The tool of a function's name; one of that name if there is none.
  Tool find(const std::string& function) const;

  /// The arguments of the function that stands for a custom tool.
  static Json custom_arguments(const std::string& input) { return {{"input", input}}; }

 private:
  void add_one(const Json& tool, const std::string& where, const std::string& space, bool shown);

  Json shown_, callable_;
  std::map<std::string, Tool, std::less<>> tools_;
};

/// The text `input` out of the arguments of a custom tool's function, while they are still being
/// written: {"input": "..."}. Arguments of another form are the text themselves.
class CustomInput {
 public:
  /// Returns the part of the input that can no longer change.
  std::string push(std::string_view arguments);
  /// The rest, when the arguments are over.
  std::string finish();

 private:
  void decode();
  bool decode_escape();

  std::string buffer_, text_;
  size_t at_ = 0, told_ = 0;
  enum class State { kBefore, kInside, kOver, kPlain } state_ = State::kBefore;
};

}  // namespace veery::serve
