// chat_file.h: a conversation as a file, which `/save` writes, and `/load`, `run --load` and the
// web page read.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

struct ChatFile {
  std::string model;                    ///< what it was called; empty: not known
  Json parameters = Json::object();     ///< of sampling, by their names in requests: numbers
  Json template_args = Json::object();  ///< variables of the chat template
  Json tools = nullptr;                 ///< functions in OpenAI's form, or null
  Json messages = Json::array();        ///< the system message first, if there is one
};

/// {"format": "veery-chat", "version": 1, "model": ..., "parameters": {...}, "template_args":
/// {...}, "tools": [...], "messages": [...]}; members without content are left out but for the
/// messages.
std::string write_chat(const ChatFile& chat);

/// Reads what write_chat() writes, an array of messages in OpenAI's form, and an export of one chat
/// of the web page, of which it takes the branch that the page shows. Other members are ignored.
/// Parameters are numbers, but their names and ranges are not checked. Throws kFormat for text that
/// is no JSON, kInput naming `where`, what was found and what was expected.
ChatFile read_chat(std::string_view text, const std::string& where);

}  // namespace veery
