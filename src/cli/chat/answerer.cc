#include "cli/chat/answerer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/editor/terminal.h"
#include "cli/output/memory.h"
#include "cli/output/output.h"
#include "schedule/generate.h"

namespace veery::cli {

bool Answerer::answer() {
  parsed_ = {};
  text_.clear();
  summary_ = {};
  AnswerPrinter printer(standard_output(), {.styled = shows_styles(STDOUT_FILENO),
                                            .hide_reasoning = state_.hide_thinking});
  try {
    make_room();
    End end = generate_part(printer, false);
    if (end == End::kFailed) return false;
    add_answer(false);
    // Each further part continues the text so far.
    while (end == End::kFull && state_.context_shift && parsed_.calls.empty() &&
           state_.chat.turns() > 1) {
      printer.end_line();
      drop_turns();
      end = generate_part(printer, true);
      add_answer(true);
    }
    printer.end_line();
    if (!state_.quiet)
      write_error(summary_line(summary_, state_.model.load_seconds(), peak_memory()));
    if (end == End::kFull)
      write_error(fmt::format("veery: the context of {} tokens is full, the answer ends here. {}\n",
                              context(), ways_on()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit && error.kind() != ErrorKind::kInput) throw;
    printer.end();
    write_error(fmt::format("veery: {}; /clear removes the conversation\n", error.what()));
    return false;
  }
  ++state_.options.sampling.seed;
  return true;
}

// Drops turns before an answer if less than a quarter of the context, or less than max_tokens if
// that is smaller, is free.
void Answerer::make_room() {
  if (!state_.context_shift) return;
  const auto most = static_cast<size_t>(
      std::clamp<int64_t>(state_.options.max_tokens, 1, static_cast<int64_t>(context())));
  const size_t room = std::min(most, context() / 4);
  if (state_.chat.prompt().size() + room > context()) drop_turns();
}

// Drops turns until half of the context is free: the remaining tokens are evaluated again, so turns
// are dropped rarely and several at a time. Keeps the last turn.
void Answerer::drop_turns() {
  const size_t dropped = state_.chat.drop_turns_beyond(context() / 2);
  if (dropped == 0) return;
  write_error(
      fmt::format("[context full: the {} dropped]\n",
                  dropped == 1 ? "oldest turn is" : fmt::format("{} oldest turns are", dropped)));
}

bool Answerer::fits(const RenderedConversation& rendered) const {
  return rendered.ids.size() + 1 <= context();
}

Answerer::End Answerer::generate_part(AnswerPrinter& printer, bool continues) {
  RenderedConversation rendered = state_.chat.render(nullptr, continues);
  if (!fits(rendered) && continues) return End::kFull;
  if (!fits(rendered)) {
    write_error(fmt::format(
        "veery: the prompt has {} tokens, the context holds {}{}: the message is removed. {}\n",
        rendered.ids.size(), context(), rendered.ids.size() == context() ? " with the answer" : "",
        ways_on()));
    return End::kFailed;
  }
  AnswerParser& parser = rendered.parser;
  GenerateRequest request{.prompt = std::move(rendered.ids),
                          .options = state_.options,
                          .grammar = grammar_,
                          .grammar_after = std::string(parser.reasoning_end())};
  request.options.drop_first_space = !state_.chat.raw() && !continues;
  if (!state_.chat.raw()) request.options.marks = rendered.format;
  request.options.max_tokens -= static_cast<int64_t>(summary_.answer_tokens);
  prompt_ = request.prompt;
  made_.clear();
  const Generation result = generate(scheduler_, request, [&](std::string_view text) {
    printer.print(parser.push(text));
    return !stopped_();
  });
  printer.print(parser.finish());
  printer.end();
  const bool cancelled = result.finish == FinishReason::kCancelled;
  if (result.ids.empty() && cancelled && !continues) {
    write_error("Stopped before the answer began: the message is removed.\n");
    return End::kFailed;
  }
  made_ = result.ids;
  summary_.add(result);
  text_ += result.text;
  parsed_.content += parser.answer().content;
  parsed_.reasoning += parser.answer().reasoning;
  parsed_.calls = parser.answer().calls;
  const bool full = result.finish == FinishReason::kLength &&
                    prompt_.size() + made_.size() >= context() &&
                    static_cast<int64_t>(summary_.answer_tokens) < state_.options.max_tokens;
  return full ? End::kFull : End::kDone;
}

void Answerer::add_answer(bool continues) {
  if (continues) state_.chat.drop_last();
  give_call_ids(parsed_, state_.chat.messages());
  if (state_.chat.raw())
    state_.chat.add_assistant(text_);
  else
    state_.chat.add_assistant(parsed_);
}

std::string Answerer::ways_on() const {
  const std::string larger = "-c N starts a chat with a larger context";
  if (state_.chat.turns() < 2) return larger;
  return "To continue: /set context_shift on drops the oldest turns, /undo the last one, /clear "
         "all; " +
         larger;
}

}  // namespace veery::cli
