#include "capi/texts.h"

#include "base/json.h"
#include "capi/handles.h"
#include "capi/results.h"
#include "chat/chat.h"

namespace veery::capi {

RenderedConversation render_chat(const LoadedModel& loaded, const char* messages,
                                 const char* variables) {
  const Model& model = loaded.model();
  Conversation conversation{.messages =
                                parse_json(required_text(messages, "messages"), "messages")};
  check_messages(conversation.messages, "messages");
  if (conversation.messages.empty())
    throw Error(ErrorKind::kInput, "messages: found none, expected one or more");
  if (variables == nullptr) return render_conversation(model, conversation);
  Json more = parse_json(variables, "variables");
  if (!more.is_object())
    throw Error(ErrorKind::kInput, "variables: found a JSON {}, expected an object",
                more.type_name());
  if (const Json* tools = more.member("tools")) conversation.tools = *tools;
  if (const Json* parse = more.member("parse_special"); parse != nullptr && parse->is_boolean())
    conversation.parse_special = parse->boolean();
  conversation.variables = std::move(more);
  return render_conversation(model, conversation);
}

}  // namespace veery::capi

using namespace veery;
using namespace veery::capi;

veery_status veery_tokenize(const veery_model* model, const char* text, size_t length,
                            int32_t special, int32_t** ids, size_t* count) {
  return guarded([&] {
    const Tokenizer& tokenizer = required(model, "model").loaded->model().tokenizer();
    required(ids, "ids") = nullptr;
    required(count, "count") = 0;
    const bool add = special != 0;
    give_array(
        tokenizer.encode(text_of(text, length, "text"), {.add_special = add, .parse_special = add}),
        ids, count);
    return VEERY_OK;
  });
}

veery_status veery_detokenize(const veery_model* model, const int32_t* ids, size_t count,
                              int32_t special, char** text, size_t* length) {
  return guarded([&] {
    const Model& of = required(model, "model").loaded->model();
    required(text, "text") = nullptr;
    const std::vector<int32_t> list = ids_of(ids, count);
    check_ids(of, list);
    give_text(of.tokenizer().decode(list, special != 0), text, length);
    return VEERY_OK;
  });
}

veery_status veery_apply_template(const veery_model* model, const char* messages,
                                  const char* variables, char** text, size_t* length) {
  return guarded([&] {
    const LoadedModel& loaded = *required(model, "model").loaded;
    required(text, "text") = nullptr;
    give_text(render_chat(loaded, messages, variables).text, text, length);
    return VEERY_OK;
  });
}
