// generate.h: from a prompt to an answer, token by token, with the cache of the last prompt reused.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/answer_text.h"
#include "engine/session.h"

namespace veery {

/// The sampling options that the file recommends (general.sampling.*), else `defaults`.
SamplerOptions recommended_sampling(const Metadata& metadata, const SamplerOptions& defaults = {});

struct Generation {
  std::string text;
  std::vector<int32_t> ids;  ///< all that were made, one that ended the answer included
  FinishReason finish = FinishReason::kLength;
  size_t reused_tokens = 0;  ///< of the prompt, found in the cache
  size_t prompt_tokens = 0;  ///< of the prompt, run
  double prompt_seconds = 0;
  double decode_seconds = 0;
  double prompt_rate() const;
  /// Tokens after the first, which comes out of the prompt's run, a second.
  double decode_rate() const;
};

/// Called after each token with the text that is certain by now, which may be none, and, without
/// text, between the runs that a long prompt is split into. False: end here.
using OnText = std::function<bool(std::string_view)>;

/// One sequence. The model must outlive it. Not thread-safe.
class Generator {
 public:
  /// `positions`: what prompt and answer will take (Runner::open); 0: the context.
  explicit Generator(Model& model, int64_t positions = 0)
      : model_(model), session_(model, positions) {}

  /// Continues `prompt`. Of it, only what differs from the tokens fed before is run. Throws kLimit,
  /// naming both numbers, if the prompt does not fit the context, kInput if it is empty or an
  /// option is out of range.
  Generation generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                      const OnText& on_text = {});

  Session& session() { return session_; }

 private:
  class Answer;
  size_t reuse(std::span<const int32_t> prompt);
  void decode(std::span<const int32_t> prompt, const GenerateOptions& options, Answer& answer);
  void decode_greedy(int32_t token, Answer& answer);
  void decode_sampled(int32_t token, Sampler& sampler, std::vector<int32_t>& history,
                      Answer& answer);

  Model& model_;
  Session session_;
  std::vector<int32_t> fed_;  ///< what the caches hold
};

}  // namespace veery
