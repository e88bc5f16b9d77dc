// chat_file.h: a conversation as a file: written by `/save`, read by `/load`, `run --load` and the
// web page.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace veery {

struct ChatFile {
  std::string model;                    ///< name of the model; empty: unknown
  Json parameters = Json::object();     ///< numbers by SamplingParameter::name, max_tokens, seed
  Json template_args = Json::object();  ///< variables of the chat template
  Json tools = nullptr;                 ///< functions in OpenAI's form, or null
  Json messages = Json::array();        ///< the system message first, if there is one
};

/// Returns {"format": "veery-chat", "version": 1, "model": ..., "parameters": {...},
/// "template_args": {...}, "tools": [...], "messages": [...]}. Leaves out empty members except
/// messages.
std::string write_chat(const ChatFile& chat);

/// Reads the output of write_chat(), an array of messages in OpenAI's form, or an export of one
/// chat of the web page, from which it takes the visible branch. Ignores other members. Checks that
/// parameters are numbers, but not their names and ranges. Throws kFormat for invalid JSON, kInput
/// naming `where`, what was found and what was expected.
ChatFile read_chat(std::string_view text, const std::string& where);

}  // namespace veery
