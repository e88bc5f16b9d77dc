// response_input.h: input items of OpenAI's Responses API as the messages of a chat.
#pragma once
#include <string>

#include "base/json.h"
#include "serve/api/fields.h"
#include "serve/responses/response_tools.h"

namespace veery::serve {

/// Turns items into messages. Reasoning, text and calls of one turn of the assistant are items of
/// their own, and become one message.
class ResponseInput {
 public:
  /// `tools` must outlive it, and takes the tools that items bring with them.
  explicit ResponseInput(ResponseTools& tools) : tools_(tools) {}

  void add_instructions(const std::string& text);
  void add_user(const std::string& text);
  /// Adds an item. `where`: its place in the request, "input[3]". Throws ApiError naming it if
  /// models here cannot read it.
  void add(const Json& item, const std::string& where);
  Json take();

 private:
  void add_message(const Fields& item, const std::string& where);
  void add_reasoning(const Fields& item);
  void add_call(const std::string& id, const std::string& name, Json arguments);
  void add_output(const Fields& item, const std::string& where);
  bool add_special(const std::string& type, const Fields& item);
  Json& turn();
  void flush();

  ResponseTools& tools_;
  Json messages_ = Json::array();
  Json turn_;  ///< the assistant's, while it is not over; null: none
};

/// Reasoning as a text that only this server reads again, for clients that keep no reasoning of
/// their own ("encrypted_content").
std::string sealed_reasoning(const std::string& text);

}  // namespace veery::serve
