// messages.h: messages and tools as people and clients write them, checked and in one form.
#pragma once
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace veery {

/// An error that names one message.
class MessageError : public Error {
 public:
  MessageError(std::string_view where, size_t index, std::string_view what)
      : Error(ErrorKind::kInput, "{}[{}]: {}", where, index, what), index_(index) {}
  size_t index() const { return index_; }

 private:
  size_t index_;
};

/// Throws kInput, naming `where` and the place, unless `messages` is an array of objects with a
/// role, a text that is not empty.
void check_messages(const Json& messages, std::string_view where);

/// Messages as OpenAI's clients write them: roles checked, texts of several parts joined, arguments
/// of calls as objects. Throws MessageError naming `where`, the message and what of it cannot be
/// used; kInput if it is no array or there are none.
Json normal_messages(const Json& messages, std::string_view where);

/// Throws kInput, naming `where` and the place, unless `tools` is an array of functions in OpenAI's
/// form: {"type": "function", "function": {"name": ..., ...}}.
void check_tools(const Json& tools, std::string_view where);

}  // namespace veery
