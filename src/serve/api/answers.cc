#include "serve/api/answers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "schedule/scheduler.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"

namespace veery::serve {
namespace {

/// Tells the thread of a request which of its answers have something new, in the order in which
/// they rang.
class Bell {
 public:
  explicit Bell(size_t answers) : queued_(answers), queue_(kMost * answers) {}

  // Called by the scheduler. Allocates nothing.
  void ring(size_t answer) {
    {
      const std::lock_guard lock(mutex_);
      if (queued_[answer] == kMost) return;
      ++queued_[answer];
      queue_[(first_ + size_++) % queue_.size()] = answer;
    }
    rung_.notify_one();
  }
  // Removes an answer from the queue; absent after `seconds` without a ring.
  std::optional<size_t> wait(double seconds) {
    std::unique_lock lock(mutex_);
    if (!rung_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return size_ > 0; }))
      return std::nullopt;
    const size_t answer = queue_[first_];
    first_ = (first_ + 1) % queue_.size();
    --size_;
    --queued_[answer];
    return answer;
  }

 private:
  // A ticket returns all waiting pieces at once, but the end of the answer only afterwards.
  static constexpr uint8_t kMost = 2;

  std::mutex mutex_;
  std::condition_variable rung_;
  std::vector<uint8_t> queued_;  // by answer: how often it is in the queue, up to kMost
  std::vector<size_t> queue_;    // a ring buffer
  size_t first_ = 0, size_ = 0;
};

/// The answers of a request while they are generated. Cancels unfinished ones on destruction or
/// when the client disconnects, and adds the used tokens to the record of the reply.
class RunningAnswers {
 public:
  struct Event {
    Answer* answer = nullptr;  ///< nullptr: no answer has anything new
    AnswerPiece piece;
    bool over = false;  ///< the answer has no more pieces; `piece` has the rest of the parser
  };

  RunningAnswers(const AnswerRequest& request, Reply& reply);
  ~RunningAnswers();
  RunningAnswers(const RunningAnswers&) = delete;
  RunningAnswers& operator=(const RunningAnswers&) = delete;

  /// Waits for the next piece of any answer, for at most `seconds`; absent: all answers are over.
  /// Throws as send_answers() does.
  std::optional<Event> next(double seconds);
  AnswerList list() const { return answers_; }

 private:
  struct State {
    bool over = false, has_line = false;
    double first = 0;  // seconds_now() of its first piece; 0: none yet
  };

  void submit(size_t prompt);
  void cancel_all();
  void take(size_t i, Event& event);
  void parse(size_t i, Event& event);
  void limit_time(size_t i, const std::string& text);
  void record_use();

  const AnswerRequest& request_;
  Reply& reply_;
  std::shared_ptr<Bell> bell_;
  std::vector<std::shared_ptr<Ticket>> tickets_;
  std::vector<Answer> answers_;
  std::vector<State> states_;
  size_t unfinished_ = 0;
};

RunningAnswers::RunningAnswers(const AnswerRequest& request, Reply& reply)
    : request_(request), reply_(reply) {
  reply.record().model = request.model.id();
  const size_t prompts = std::max<size_t>(request.prompts.size(), 1);
  unfinished_ = prompts * static_cast<size_t>(request.count);
  bell_ = std::make_shared<Bell>(unfinished_);
  states_.resize(unfinished_);
  // An answer that is submitted is in tickets_, so that it can be cancelled.
  tickets_.reserve(unfinished_);
  answers_.reserve(unfinished_);
  try {
    for (size_t p = 0; p < prompts; ++p) submit(p);
    reply.on_gone([tickets = tickets_] {
      for (const auto& ticket : tickets) ticket->cancel();
    });
  } catch (...) {
    cancel_all();
    throw;
  }
}

void RunningAnswers::submit(size_t prompt) {
  for (int32_t i = 0; i < request_.count; ++i) {
    GenerateRequest own = request_.generate;
    if (!request_.prompts.empty()) own.prompt = request_.prompts[prompt];
    set_user(own, reply_.record());
    own.options.sampling.seed += static_cast<uint64_t>(i);
    own.notify = [bell = bell_, answer = tickets_.size()] { bell->ring(answer); };
    tickets_.push_back(request_.model.scheduler()->submit(std::move(own)));
    answers_.push_back({.index = std::ssize(answers_),
                        .prompt = prompt,
                        .ticket = tickets_.back(),
                        .parser = request_.parser,
                        .limit = CallLimit(request_.choice)});
  }
}

RunningAnswers::~RunningAnswers() {
  cancel_all();
  record_use();
}

// Has no effect on answers that are over.
void RunningAnswers::cancel_all() {
  for (const auto& ticket : tickets_) ticket->cancel();
}

void RunningAnswers::record_use() {
  RequestRecord& record = reply_.record();
  for (size_t i = 0; i < tickets_.size(); ++i) {
    const Progress progress = tickets_[i]->progress();
    // A prompt counts once, whatever the number of its answers.
    if (i % static_cast<size_t>(request_.count) == 0) {
      record.prompt_tokens += progress.prompt;
      record.cached_tokens += progress.cached;
    }
    record.answer_tokens += progress.tokens;
    if (progress.first_token >= 0 &&
        (record.first_token < 0 || progress.first_token < record.first_token))
      record.first_token = progress.first_token;
    record.finish = states_[i].over ? name(tickets_[i]->result().finish) : "cancelled";
  }
}

std::optional<RunningAnswers::Event> RunningAnswers::next(double seconds) {
  if (unfinished_ == 0) return std::nullopt;
  if (reply_.ending()) throw ApiError(503, "the server stops before the end of the answer");
  Event event;
  const std::optional<size_t> rang = bell_->wait(seconds);
  if (rang && !states_[*rang].over) take(*rang, event);
  return event;
}

// Leaves `event` without an answer if the answer has nothing new.
void RunningAnswers::take(size_t i, Event& event) {
  AnswerPart part;
  event.over = states_[i].over = !tickets_[i]->next_within(part, 0);
  if (event.over) --unfinished_;
  event.piece.text = std::move(part.text);
  event.piece.scores = std::move(part.scores);
  if (reply_.record().keeps_texts) reply_.record().answer_text += event.piece.text;
  if (!event.over && event.piece.is_empty()) return;
  event.answer = &answers_[i];
  if (!event.over && request_.most_seconds > 0) limit_time(i, event.piece.text);
  if (answers_[i].parser) parse(i, event);
}

void RunningAnswers::parse(size_t i, Event& event) {
  Answer& answer = answers_[i];
  event.piece.deltas = event.over ? answer.parser->finish() : answer.parser->push(event.piece.text);
  if (answer.limit.apply(event.piece.deltas)) tickets_[i]->cancel();
}

void RunningAnswers::limit_time(size_t i, const std::string& text) {
  State& state = states_[i];
  if (state.first == 0) state.first = seconds_now();
  state.has_line = state.has_line || text.find('\n') != std::string::npos;
  if (state.has_line && seconds_now() - state.first > request_.most_seconds) tickets_[i]->cancel();
}

/// Pings the client of a stream if nothing was written for some seconds.
class Pinger {
 public:
  Pinger(ReplyWriter& writer, EventStream& stream, double seconds)
      : writer_(writer), stream_(stream), seconds_(seconds) {}

  // Returns the seconds until the next ping is due.
  double left() const {
    return std::max(std::max(stream_.last_write(), last_) + seconds_ - seconds_now(), 0.0);
  }
  void ping_if_due() {
    if (left() > 0) return;
    writer_.ping(stream_);
    last_ = seconds_now();
  }

 private:
  ReplyWriter& writer_;
  EventStream& stream_;
  double seconds_;
  double last_ = 0;  // seconds_now() of the last ping, which may have written nothing
};

void send_whole(const AnswerRequest& request, RunningAnswers& running, ReplyWriter& writer,
                Reply& reply) {
  while (std::optional<RunningAnswers::Event> event = running.next(request.ping_seconds))
    if (event->answer != nullptr) event->answer->pieces.push_back(std::move(event->piece));
  const AnswerUsage usage(running.list(), request.model.model().tokenizer());
  reply.send(200, kJson, dump_json(writer.whole(running.list(), usage)));
}

void write_event(const RunningAnswers::Event& event, ReplyWriter& writer, EventStream& stream) {
  if (!event.over || !event.piece.is_empty()) writer.add(*event.answer, event.piece, stream);
  if (event.over) writer.end(*event.answer, stream);
}

void send_stream(const AnswerRequest& request, RunningAnswers& running, ReplyWriter& writer,
                 Reply& reply) {
  EventStream stream(reply);
  writer.begin(running.list(), stream);
  Pinger pinger(writer, stream, request.ping_seconds);
  while (stream.alive()) {
    const std::optional<RunningAnswers::Event> event = running.next(pinger.left());
    if (!event) {
      const AnswerUsage usage(running.list(), request.model.model().tokenizer());
      writer.finish(running.list(), usage, stream);
      return stream.end();
    }
    if (event->answer != nullptr) write_event(*event, writer, stream);
    pinger.ping_if_due();
  }
}

}  // namespace

void send_answers(const AnswerRequest& request, ReplyWriter& writer, Reply& reply) {
  RunningAnswers running(request, reply);
  request.stream ? send_stream(request, running, writer, reply)
                 : send_whole(request, running, writer, reply);
}

void set_user(GenerateRequest& request, const RequestRecord& record) {
  request.user = record.user;
  request.weight = record.weight;
  request.priority = record.priority;
}

AnswerUsage::AnswerUsage(AnswerList answers, const Tokenizer& tokenizer)
    : answers_(answers), tokenizer_(tokenizer) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const Generation& result = answers[i].result();
    generated += std::ssize(result.ids);
    if (i > 0 && answers[i].prompt == answers[i - 1].prompt) continue;
    prompt += static_cast<int64_t>(result.prompt_tokens + result.reused_tokens);
    cached += static_cast<int64_t>(result.reused_tokens);
  }
}

std::optional<int64_t> AnswerUsage::reasoning() const {
  int64_t sum = 0;
  for (const Answer& answer : answers_) {
    if (!answer.parser) return std::nullopt;
    const std::string text = answer.parsed().reasoning;
    const int64_t count =
        text.empty() ? 0 : std::ssize(tokenizer_.encode(text, {.add_special = false}));
    sum += std::min(count, std::ssize(answer.result().ids));
  }
  return sum;
}

Json arguments_json(const ToolCall& call) {
  std::optional<Json> arguments = maybe_json(call.arguments);
  return arguments && arguments->is_object() ? std::move(*arguments) : Json::object();
}

}  // namespace veery::serve
