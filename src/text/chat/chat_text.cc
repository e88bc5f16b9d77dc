#include "text/chat/chat_text.h"

#include "text/chat_template.h"

namespace veery {

Json special_token_variables(const Tokenizer& tokenizer) {
  const Tokenizer::Special& special = tokenizer.special();
  Json variables = Json::object();
  const auto add = [&](const char* name, int32_t id) {
    if (id >= 0) variables[name] = tokenizer.token(id);
  };
  add("bos_token", special.bos);
  add("eos_token", special.eos);
  add("unk_token", special.unknown);
  add("pad_token", special.pad);
  return variables;
}

Json template_variables(const Json& special_tokens, const Json& messages,
                        bool add_generation_prompt, const Json& more) {
  Json variables = {{"messages", template_messages(messages)},
                    {"tools", nullptr},
                    {"documents", nullptr},
                    {"add_generation_prompt", add_generation_prompt}};
  for (const Json* extra : {&special_tokens, &more})
    if (extra->is_object())
      for (const auto& [name, value] : extra->items()) variables[name] = value;
  return variables;
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text,
                                   LostBytes* lost, std::string_view guard) {
  const Tokenizer::Special& special = tokenizer.special();
  std::vector<int32_t> ids =
      tokenizer.encode(text, {.add_special = false, .lost = lost, .guard = guard});
  if (special.add_bos && special.bos >= 0 && (ids.empty() || ids.front() != special.bos))
    ids.insert(ids.begin(), special.bos);
  return ids;
}

}  // namespace veery
