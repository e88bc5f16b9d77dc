#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "base/clock.h"
#include "base/printable.h"
#include "serve/api/api_error.h"
#include "serve/api/prompt.h"
#include "serve/http/words.h"
#include "serve/page/page.h"

namespace veery::serve {
namespace {

// No inline code and no other origins. Strings become HTML only through DOMPurify, and script URLs
// only through the policy "veery" of the page's markdown.js.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types dompurify veery";

// Whether the list of an Accept-Encoding or If-None-Match header has `item`.
bool lists(std::string_view header, std::string_view item) {
  while (!header.empty()) {
    const size_t comma = std::min(header.find(','), header.size());
    std::string_view part = header.substr(0, comma);
    header.remove_prefix(std::min(comma + 1, header.size()));
    while (part.starts_with(' ') || part.starts_with('\t')) part.remove_prefix(1);
    if (part.starts_with("W/")) part.remove_prefix(2);
    if (!part.starts_with(item)) continue;
    const std::string_view rest = part.substr(item.size());
    if (rest.empty() || rest.front() == ' ') return true;
    if (rest.front() == ';') return rest != ";q=0" && rest != "; q=0";
  }
  return false;
}

// Clients of Ollama use "/" to see whether a server runs; all others get the web page.
void page_file(Context&, const HttpRequest& request, Reply& reply) {
  if (request.path == "/" && request.header("user-agent").starts_with("ollama"))
    return reply.send(200, "text/plain; charset=utf-8", "Ollama is running");
  constexpr std::string_view kFolder = "/page/";
  const std::string_view path = request.path;
  const PageFile* file = find_page_file(
      path == "/" ? "index.html" : path.substr(std::min(kFolder.size(), path.size())));
  if (file == nullptr) throw ApiError(404, fmt::format("there is no {}", printable(path, 200)));
  reply.add_header("Content-Security-Policy", kPagePolicy);
  reply.add_header("X-Frame-Options", "DENY");
  reply.add_header("X-Content-Type-Options", "nosniff");
  reply.add_header("Referrer-Policy", "no-referrer");
  reply.add_header("Cache-Control", "no-cache");  // revalidated by its ETag
  reply.add_header("ETag", std::string(file->tag));
  reply.add_header("Vary", "Accept-Encoding");
  const std::string_view known = request.header("if-none-match");
  if (known == "*" || lists(known, file->tag)) return reply.send(304, {}, {});
  if (!lists(request.header("accept-encoding"), "gzip"))
    return reply.send(200, file->type, page_content(*file));
  reply.add_header("Content-Encoding", "gzip");
  reply.send(200, file->type, std::string(file->gzip));
}

void openapi(Context& context, const HttpRequest&, Reply& reply) {
  std::string text(kOpenApi);
  text.replace(text.find(kOpenApiVersion), kOpenApiVersion.size(), context.version);
  reply.send(200, kJson, text);
}

constexpr Route kRoutes[] = {
    {"GET", "/", page_file},
    {"GET", "/page/*", page_file},
    {"GET", "/openapi.json", openapi},
    {"GET", "/health", health},
    {"GET", "/v1/health", health},
    {"GET", "/metrics", metrics},
    {"GET", "/slots", slots},
    {"GET", "/props", props},
    {"GET", "/v1/models", list_models},
    {"GET", "/v1/models/*", list_models},
    {"POST", "/v1/chat/completions", chat_completions},
    {"POST", "/v1/completions", completions},
    {"POST", "/v1/embeddings", embeddings},
    {"POST", "/v1/responses", responses},
    {"GET", "/v1/responses/*", stored_response},
    {"DELETE", "/v1/responses/*", delete_response},
    {"POST", "/v1/audio/transcriptions", transcriptions},
    {"POST", "/v1/audio/translations", translations},
    {"POST", "/v1/rerank", rerank},
    {"POST", "/v1/reranking", rerank},
    {"POST", "/v1/classify", classify},
    {"POST", "/v1/messages", messages, Family::kAnthropic},
    {"POST", "/v1/messages/count_tokens", count_tokens, Family::kAnthropic},
    {"POST", "/completion", llama_completion},
    {"POST", "/infill", llama_infill},
    {"POST", "/embedding", llama_embedding},
    {"POST", "/v1/inspect", inspect},
    {"POST", "/v1/tokenize", tokenize},
    {"POST", "/v1/detokenize", detokenize},
    {"GET", "/tokenizer_info", tokenizer_info},
    {"POST", "/v1/apply-template", apply_template},
    {"GET", "/api/version", ollama_version, Family::kOllama},
    {"GET", "/api/tags", ollama_tags, Family::kOllama},
    {"GET", "/api/ps", ollama_running, Family::kOllama},
    {"POST", "/api/show", ollama_show, Family::kOllama},
    {"POST", "/api/chat", ollama_chat, Family::kOllama},
    {"POST", "/api/generate", ollama_generate, Family::kOllama},
    {"POST", "/api/embed", ollama_embed, Family::kOllama},
    {"POST", "/api/embeddings", ollama_embed, Family::kOllama},
};

bool matches(std::string_view pattern, std::string_view path) {
  if (pattern.ends_with('*')) {
    pattern.remove_suffix(1);
    return path.size() > pattern.size() && path.starts_with(pattern);
  }
  return pattern == path;
}

// "/v1/..." can also be reached without "/v1".
bool reaches(const Route& route, std::string_view path) {
  constexpr std::string_view kVersion = "/v1";
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (matches(route.path, path)) return true;
  return route.path.starts_with(kVersion) && matches(route.path.substr(kVersion.size()), path);
}

Json error_json(Family family, const ApiError& error) {
  switch (family) {
    case Family::kOpenAi: break;
    case Family::kAnthropic: return anthropic_error(error);
    case Family::kOllama: return ollama_error(error);
  }
  return openai_error(error);
}

void send_error(Family family, const ApiError& error, Reply& reply) {
  if (!reply.begun()) {
    if (error.retry_after > 0) {
      const auto seconds = static_cast<int64_t>(std::ceil(error.retry_after));
      reply.add_header("Retry-After", std::to_string(seconds));
    }
    if (error.status == 401) reply.add_header("WWW-Authenticate", "Bearer");
    return reply.send(error.status, kJson, dump_json(error_json(family, error)));
  }
  // A stream has begun: it ends with the error.
  const std::string body = dump_json(error_json(family, error));
  reply.write(family == Family::kOllama      ? body + "\n"
              : family == Family::kAnthropic ? "event: error\ndata: " + body + "\n\n"
                                             : "data: " + body + "\n\n");
  reply.end();
}

bool is_address(std::string_view host) {
  return !host.empty() && host.find_first_not_of("0123456789.:abcdef") == std::string::npos &&
         host.find_first_of(".:") != std::string::npos;
}

// Checked here for all endpoints: none decodes bodies.
void require_plain_body(const HttpRequest& request, Reply& reply) {
  const std::string coding = lower_case(request.header("content-encoding"));
  if (coding.empty() || coding == "identity") return;
  reply.add_header("Accept-Encoding", "identity");
  throw ApiError(415, fmt::format("the content encoding of the body is '{}', expected none",
                                  printable(coding, 40)));
}

}  // namespace

Service::Service(Context& context, ServiceOptions options)
    : context_(context),
      options_(std::move(options)),
      limits_(std::exchange(options_.api_keys, {}), seconds_now()) {
  for (std::string& host : options_.hosts) host = normal_host(host);
}

void Service::check_host(const HttpRequest& request) const {
  const std::string host = normal_host(request.header("host"));
  if (!options_.loopback || host.empty() || host == "localhost" || is_address(host)) return;
  if (std::ranges::find(options_.hosts, host) != options_.hosts.end()) return;
  throw ApiError(403, fmt::format("the host name '{}' is not allowed, expected --allow-host {}",
                                  printable(host, 100), printable(host, 100)));
}

std::string Service::allowed_origin(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return {};
  for (const std::string& allowed : options_.origins)
    if (allowed == "*" || allowed == origin) return std::string(origin);
  // A page of this server: "http://" and the host of the request.
  const size_t slashes = origin.find("//");
  if (slashes != std::string_view::npos &&
      lower_case(origin.substr(slashes + 2)) == lower_case(request.header("host")))
    return std::string(origin);
  throw ApiError(
      403, fmt::format("the origin '{}' is not allowed, expected --cors {}",
                       printable(std::string(origin), 100), printable(std::string(origin), 100)));
}

int64_t Service::check_key(const HttpRequest& request) const {
  if (limits_.empty()) return -1;
  std::string_view given = bearer_token(request.header("authorization"));
  if (given.empty()) given = request.header("x-api-key");
  const int64_t found = limits_.find(given);
  if (found < 0)
    throw ApiError(
        401,
        given.empty() ? "missing API key, expected Authorization: Bearer KEY" : "wrong API key", {},
        "invalid_api_key");
  return found;
}

// Messages to clients name no files; the log has the full message.
void Service::refuse(Family family, const std::exception& error, Reply& reply) {
  const ApiError found = api_error(error);
  RequestRecord& record = reply.record();
  if (found.status >= 500) {
    const bool out_of_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    record.error = out_of_memory ? "memory is short" : error.what();
    if (!record.finish.empty()) record.finish = "error";
  }
  // Without a log (veery batch) the client is the user who runs the program.
  std::string message = context_.log == nullptr ? error.what() : found.what();
  if (context_.log != nullptr && context_.ready) message = context_.models.without_paths(message);
  ApiError shown(found.status, message, found.param, found.code);
  shown.retry_after = found.retry_after;
  send_error(family, shown, reply);
}

// Counts the request for the limits of its key, and its tokens at its end.
void Service::answer(const Route& route, Family family, const HttpRequest& request, Reply& reply) {
  RequestRecord& record = reply.record();
  const bool open = route.endpoint == page_file || route.path == "/openapi.json" ||
                    route.path.ends_with("/health");
  const int64_t index = open ? -1 : check_key(request);
  record.user = index < 0 ? record.client : "key:" + limits_.key(index).name;
  if (index >= 0) {
    const ApiKey& key = limits_.key(index);
    record.key = key.name;
    record.weight = key.weight;
    record.priority = key.priority;
  }
  if (!context_.ready && !open) throw ApiError(503, "the models are loading");
  require_plain_body(request, reply);
  const bool counted = index >= 0 && route.method == "POST";
  if (!counted) return route.endpoint(context_, request, reply);
  struct Stay {
    RateLimits& limits;
    int64_t index;
    const RequestRecord& record;
    ~Stay() { limits.leave(index, record.prompt_tokens + record.answer_tokens, seconds_now()); }
  };
  try {
    limits_.enter(index, seconds_now());
  } catch (const ApiError&) {
    add_limit_headers(limits_.allowance(index, seconds_now()), family, reply);
    throw;
  }
  const Stay stay{limits_, index, record};
  add_limit_headers(limits_.allowance(index, seconds_now()), family, reply);
  route.endpoint(context_, request, reply);
}

void Service::handle(const HttpRequest& request, Reply& reply) {
  RequestRecord& record = reply.record();
  record.keeps_texts = context_.log != nullptr && context_.log->options().prompts;
  Family family = request.path.starts_with("/api/") ? Family::kOllama : Family::kOpenAi;
  try {
    check_host(request);
    const std::string origin = allowed_origin(request);
    if (!origin.empty()) {
      reply.add_header("Access-Control-Allow-Origin", origin);
      reply.add_header("Vary", "Origin");
    }
    const bool head = request.method == "HEAD";
    const Route* found = nullptr;
    std::string methods;
    for (const Route& route : kRoutes) {
      if (!reaches(route, request.path)) continue;
      const bool anthropic = !request.header("anthropic-version").empty();
      family = anthropic && route.family == Family::kOpenAi ? Family::kAnthropic : route.family;
      // "/health" also matches "/v1/health" without "/v1", so methods may repeat.
      if (methods.find(route.method) == std::string::npos)
        methods += (methods.empty() ? "" : ", ") + std::string(route.method);
      if (record.route.empty()) record.route = route.path;
      const bool asked = route.method == request.method || (head && route.method == "GET");
      if (asked && found == nullptr) found = &route;
    }
    if (family == Family::kAnthropic) reply.add_header("request-id", record.id);
    if (request.method == "OPTIONS" && !methods.empty()) {
      reply.add_header("Allow", methods);
      reply.add_header("Access-Control-Allow-Methods", methods + ", OPTIONS");
      reply.add_header("Access-Control-Allow-Headers", "*, Authorization, Content-Type");
      reply.add_header("Access-Control-Max-Age", "3600");
      return reply.send(204, {}, {});
    }
    if (methods.empty())
      throw ApiError(404, fmt::format("there is no {}", printable(request.path, 200)));
    if (found == nullptr) {
      reply.add_header("Allow", methods);
      throw ApiError(405, fmt::format("the method is {}, expected {}",
                                      printable(request.method, 40), methods));
    }
    record.route = found->path;
    answer(*found, family, request, reply);
  } catch (const std::exception& error) {
    refuse(family, error, reply);
  }
}

}  // namespace veery::serve
