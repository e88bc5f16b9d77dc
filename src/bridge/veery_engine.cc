#include "bridge/veery_engine.h"

#include "chat/chat.h"
#include "schedule/generate.h"

namespace veery {

VeeryEngine::VeeryEngine(Model& model) : model_(model), scheduler_(model, single_user()) {}

EngineInfo VeeryEngine::info() {
  const TransformerConfig& c = model_.config();
  return {c.architecture, c.vocab, c.layers, c.dim};
}

EngineAnswer VeeryEngine::generate(std::string_view prompt, const EngineOptions& options,
                                   const OnPiece& on_piece) {
  return answer(encode_prompt(model_.tokenizer(), prompt), options, on_piece);
}

EngineAnswer VeeryEngine::chat(const Json& messages, const EngineOptions& options,
                               const OnPiece& on_piece) {
  Chat chat(model_, "", false);
  chat.set_messages(messages, "messages");
  return answer(chat.prompt(), options, on_piece);
}

EngineAnswer VeeryEngine::answer(std::vector<int32_t> prompt, const EngineOptions& options,
                                 const OnPiece& on_piece) {
  const std::lock_guard lock(mutex_);
  GenerateRequest request{.prompt = std::move(prompt)};
  request.options.max_tokens = options.max_tokens;
  request.options.sampling = {.top_p = static_cast<float>(options.top_p),
                              .min_p = 0,
                              .top_k = options.top_k,
                              .temperature = static_cast<float>(options.temperature),
                              .seed = options.seed};
  const auto prompt_tokens = std::ssize(request.prompt);
  bool cancelled = false;
  const Generation result =
      veery::generate(scheduler_, std::move(request), [&](std::string_view text) {
        if (!cancelled && on_piece && !text.empty()) cancelled = !on_piece(text);
        return !cancelled;
      });
  return {
      result.text, prompt_tokens, std::ssize(result.ids),
      std::string(cancelled ? veery::name(FinishReason::kCancelled) : veery::name(result.finish))};
}

}  // namespace veery
