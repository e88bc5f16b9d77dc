#include "bridge/mlx_lm_engine.h"

#include <exception>

#include "base/error.h"
#include "base/printable.h"
#include "bridge/bridge.h"

namespace veery {
namespace {

constexpr int kMostDepth = 16;

Json load_request(const std::string& model) { return {{"op", "load"}, {"model", model}}; }

int64_t count_of(const Json& reply, const char* key) {
  return reply.contains(key) && reply.at(key).is_number() ? reply.at(key).get<int64_t>() : 0;
}

std::string text_of(const Json& reply, const char* key) {
  return reply.contains(key) && reply.at(key).is_string() ? reply.at(key).get<std::string>() : "";
}

}  // namespace

MlxLmEngine::MlxLmEngine(const std::string& model, const MlxLmOptions& options)
    : options_(options) {
  std::vector<std::string> command = {options.python};
  if (options.script.empty())
    command.insert(command.end(), {"-c", std::string(kBridge)});
  else
    command.push_back(options.script);
  process_ = std::make_unique<LineProcess>(command);
  process_->write_line(dump_json(load_request(model)));
  const Json reply = receive(options_.load_timeout);
  info_ = {text_of(reply, "model_type"), count_of(reply, "vocab_size"), count_of(reply, "layers"),
           count_of(reply, "hidden_size")};
}

MlxLmEngine::~MlxLmEngine() = default;

Json MlxLmEngine::receive(std::chrono::seconds timeout) {
  const std::string line = process_->read_line(timeout);
  Json reply;
  try {
    reply = parse_json(line, options_.python, kMostDepth);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    reply = nullptr;
  }
  if (!reply.is_object()) {
    process_.reset();
    throw Error(ErrorKind::kIo, "{}: its output is '{}', expected a JSON object", options_.python,
                printable(line, 100));
  }
  if (reply.contains("error"))
    throw Error(ErrorKind::kInput, "mlx_lm: {}", printable(text_of(reply, "error"), 500));
  return reply;
}

EngineAnswer MlxLmEngine::generate(std::string_view prompt, const EngineOptions& options,
                                   const OnPiece& on_piece) {
  return answer({{"op", "generate"}, {"prompt", prompt}}, options, on_piece);
}

EngineAnswer MlxLmEngine::chat(const Json& messages, const EngineOptions& options,
                               const OnPiece& on_piece) {
  return answer({{"op", "chat"}, {"messages", messages}}, options, on_piece);
}

EngineAnswer MlxLmEngine::answer(Json request, const EngineOptions& options,
                                 const OnPiece& on_piece) {
  const std::lock_guard lock(mutex_);
  if (!process_ || !process_->running())
    throw Error(ErrorKind::kIo, "{}: has ended", options_.python);
  request["max_tokens"] = options.max_tokens;
  request["temperature"] = options.temperature;
  request["top_k"] = options.top_k;
  request["top_p"] = options.top_p;
  request["seed"] = options.seed;
  process_->write_line(dump_json(request));
  EngineAnswer answer;
  bool cancelled = false;
  std::exception_ptr error;  // of on_piece; thrown at the end, so that no reply is left unread
  while (true) {
    const Json reply = receive(options_.token_timeout);
    if (reply.contains("done")) {
      answer.prompt_tokens = count_of(reply, "prompt_tokens");
      answer.tokens = count_of(reply, "tokens");
      if (error) std::rethrow_exception(error);
      answer.finish_reason = cancelled ? "cancelled" : text_of(reply, "finish_reason");
      return answer;
    }
    const std::string piece = text_of(reply, "text");
    if (cancelled) continue;  // it was sent before the cancellation arrived
    answer.text += piece;
    try {
      cancelled = on_piece && !piece.empty() && !on_piece(piece);
    } catch (...) {
      error = std::current_exception();
      cancelled = true;
    }
    if (cancelled) process_->write_line(R"({"op": "cancel"})");
  }
}

}  // namespace veery
