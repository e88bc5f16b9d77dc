// response_tools.h: represents tools of OpenAI's Responses API as functions.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery::serve {

/// The tools of one request.
///
/// Models call functions. A custom tool is represented by a function with one text argument,
/// `input`, and a tool of a namespace by a function whose name begins with the namespace. Tools of
/// other types run at a provider and are left out.
class ResponseTools {
 public:
  struct Tool {
    std::string name, space;  ///< the client's names; `space` may be empty
    bool custom = false;
  };

  /// Adds a list of tools. `where`: its position in the request. `shown`: whether the prompt
  /// describes the tools. Throws ApiError for a tool without a name.
  void add(const Json& tools, const std::string& where, bool shown);

  /// Returns the functions in the prompt, in the format of templates; null if there are none.
  const Json& shown() const { return shown_; }
  /// Returns the functions that the model may call, in the same format; null if there are none.
  const Json& callable() const { return callable_; }
  /// Returns the tool of a function; a tool of the same name if the function is unknown.
  Tool find(const std::string& function) const;

  /// Returns the arguments of the function that represents a custom tool.
  static Json custom_arguments(const std::string& input) { return {{"input", input}}; }

 private:
  void add_one(const Json& tool, const std::string& where, const std::string& space, bool shown);

  Json shown_, callable_;
  std::map<std::string, Tool, std::less<>> tools_;
};

/// Extracts the text `input` from the arguments of a custom tool's function, {"input": "..."},
/// while they are generated. Arguments of another format are the text themselves.
class CustomInput {
 public:
  /// Returns more text of the input as far as it is certain.
  std::string push(std::string_view arguments);
  /// Returns the rest at the end of the arguments.
  std::string finish();

 private:
  void decode();
  bool decode_escape();

  std::string buffer_, text_;
  size_t at_ = 0;        // position in buffer_
  size_t returned_ = 0;  // bytes of text_ that push() has returned
  enum class State { kBefore, kInside, kOver, kPlain } state_ = State::kBefore;
};

}  // namespace veery::serve
