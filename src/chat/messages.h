// messages.h: checks and normalises messages and tools of users and clients.
#pragma once
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace veery {

/// An error in one message.
class MessageError : public Error {
 public:
  MessageError(std::string_view where, size_t index, std::string_view what)
      : Error(ErrorKind::kInput, "{}[{}]: {}", where, index, what), index_(index) {}
  size_t index() const { return index_; }

 private:
  size_t index_;
};

/// Throws kInput naming `where` and the message unless `messages` is an array of objects with a
/// role, a non-empty string.
void check_messages(const Json& messages, std::string_view where);

/// Normalises messages in OpenAI's form: checks roles, joins text parts, turns arguments of calls
/// into objects. Throws MessageError naming `where`, the message and its error; kInput if
/// `messages` is not an array or is empty.
Json normal_messages(const Json& messages, std::string_view where);

/// Throws kInput naming `where` and the tool unless `tools` is an array of functions in OpenAI's
/// form: {"type": "function", "function": {"name": ..., ...}}.
void check_tools(const Json& tools, std::string_view where);

}  // namespace veery
