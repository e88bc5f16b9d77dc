// response_input.h: converts input items of OpenAI's Responses API to messages of a chat.
#pragma once
#include <string>

#include "base/json.h"
#include "serve/api/fields.h"
#include "serve/responses/response_tools.h"

namespace veery::serve {

/// Converts items to messages. Reasoning, text and calls of one turn of the assistant are separate
/// items, which become one message.
class ResponseInput {
 public:
  /// `tools`: must outlive it; receives the tools that items contain.
  explicit ResponseInput(ResponseTools& tools) : tools_(tools) {}

  void add_instructions(const std::string& text);
  void add_user(const std::string& text);
  /// Adds an item. `where`: its position in the request, "input[3]". Throws ApiError naming it if
  /// the item is not supported.
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
  Json turn_;  ///< the current message of the assistant; null: none
};

/// Returns reasoning as a text for "encrypted_content", which this server can read again. For
/// clients that do not keep reasoning themselves.
std::string sealed_reasoning(const std::string& text);

}  // namespace veery::serve
