// context.h: the state that endpoints share, and their declarations.
#pragma once
#include <atomic>
#include <span>
#include <string>

#include "serve/api/api_error.h"
#include "serve/http/message.h"
#include "serve/models/models.h"
#include "serve/observe/http_counts.h"
#include "serve/observe/log.h"
#include "serve/store/response_store.h"

namespace veery::serve {

struct Context {
  Models models;
  double started = 0;  ///< seconds_now()
  std::string version;
  std::atomic<bool> ready{false};
  ResponseStore responses;
  HttpCounts http;
  Log* log = nullptr;  ///< nullptr: no log
};

using Endpoint = void (*)(Context&, const HttpRequest&, Reply&);

struct Route {
  std::string_view method, path;  ///< "/v1/..." can also be reached without "/v1"
  Endpoint endpoint;
  Family family = Family::kOpenAi;
};

inline constexpr const char* kJson = "application/json";
inline constexpr const char* kEvents = "text/event-stream";
inline constexpr const char* kLines = "application/x-ndjson";

// OpenAI.
void list_models(Context& context, const HttpRequest& request, Reply& reply);
void chat_completions(Context& context, const HttpRequest& request, Reply& reply);
void completions(Context& context, const HttpRequest& request, Reply& reply);
void embeddings(Context& context, const HttpRequest& request, Reply& reply);
void responses(Context& context, const HttpRequest& request, Reply& reply);
void stored_response(Context& context, const HttpRequest& request, Reply& reply);
void delete_response(Context& context, const HttpRequest& request, Reply& reply);
void transcriptions(Context& context, const HttpRequest& request, Reply& reply);
void translations(Context& context, const HttpRequest& request, Reply& reply);
// Cohere and Jina.
void rerank(Context& context, const HttpRequest& request, Reply& reply);
// vLLM, with labels of the request.
void classify(Context& context, const HttpRequest& request, Reply& reply);
// Anthropic.
void messages(Context& context, const HttpRequest& request, Reply& reply);
void count_tokens(Context& context, const HttpRequest& request, Reply& reply);
// llama.cpp.
void llama_completion(Context& context, const HttpRequest& request, Reply& reply);
void llama_infill(Context& context, const HttpRequest& request, Reply& reply);
void llama_embedding(Context& context, const HttpRequest& request, Reply& reply);
// veery.
void inspect(Context& context, const HttpRequest& request, Reply& reply);
// llama.cpp and vLLM.
void tokenize(Context& context, const HttpRequest& request, Reply& reply);
void detokenize(Context& context, const HttpRequest& request, Reply& reply);
void tokenizer_info(Context& context, const HttpRequest& request, Reply& reply);
void apply_template(Context& context, const HttpRequest& request, Reply& reply);
void health(Context& context, const HttpRequest& request, Reply& reply);
void metrics(Context& context, const HttpRequest& request, Reply& reply);
void slots(Context& context, const HttpRequest& request, Reply& reply);
void props(Context& context, const HttpRequest& request, Reply& reply);
// Ollama.
void ollama_version(Context& context, const HttpRequest& request, Reply& reply);
void ollama_tags(Context& context, const HttpRequest& request, Reply& reply);
void ollama_running(Context& context, const HttpRequest& request, Reply& reply);
void ollama_show(Context& context, const HttpRequest& request, Reply& reply);
void ollama_chat(Context& context, const HttpRequest& request, Reply& reply);
void ollama_generate(Context& context, const HttpRequest& request, Reply& reply);
void ollama_embed(Context& context, const HttpRequest& request, Reply& reply);

}  // namespace veery::serve
