#include "schedule/scheduler.h"

#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace veery {
namespace {

std::unique_ptr<PrefixStore> make_store(Session& session, const SchedulerOptions& options) {
  if (options.prefix_store.folder.empty() || session.model().options().layout_only) return nullptr;
  return std::make_unique<PrefixStore>(session, options.prefix_store);
}

CachePlan plan_of(Model& model, const DraftModels& models, const SchedulerOptions& options) {
  check(options);
  return plan_caches(scheduled_models(model, models), {.slots = options.slots,
                                                       .kept = options.kept,
                                                       .positions = options.positions,
                                                       .draft_tokens = options.draft_tokens,
                                                       .cache_bytes = options.cache_bytes,
                                                       .memory_bytes = options.memory_bytes,
                                                       .at_least_one = options.at_least_one,
                                                       .fewer_slots = options.fewer_slots});
}

}  // namespace

void check(const SchedulerOptions& options) {
  if (options.slots < 1 || options.slots > kMostSlots)
    throw Error(ErrorKind::kInput, "slots is {}, expected 1 to {}", options.slots, kMostSlots);
  if (options.kept < 0 || options.kept > kMostKept)
    throw Error(ErrorKind::kInput, "kept is {}, expected 0 to {}", options.kept, kMostKept);
  if (options.draft_tokens < 0 || options.draft_tokens > kMostDrafted)
    throw Error(ErrorKind::kInput, "draft_tokens is {}, expected 0 to {}", options.draft_tokens,
                kMostDrafted);
}

Scheduler::Scheduler(Model& model, const SchedulerOptions& options)
    : model_(model),
      options_(options),
      draft_models_(draft_models(model, options)),
      plan_(plan_of(model, draft_models_, options)),
      session_(model, plan_.session),
      store_(make_store(session_, options)),
      sequences_(session_, /*keeps=*/options.kept > 0, store_.get()),
      speculation_(session_, draft_models_, plan_, options),
      commit_(session_, sequences_, speculation_, own_),
      policy_(session_, sequences_, commit_, own_,
              {.slots = plan_.slots,
               .longest_step = options.longest_step,
               .roots = speculation_.roots()}),
      thread_([this] { loop(); }) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::shared_ptr<Ticket> Scheduler::submit(GenerateRequest request) {
  if (request.prompt.empty())
    throw Error(ErrorKind::kInput, "the prompt is empty, expected at least one token");
  const bool answers = request.options.max_tokens > 0 && request.choices.empty();
  if (request.prompt.size() + (answers ? 1 : 0) > static_cast<size_t>(context()))
    throw Error(ErrorKind::kLimit, "the prompt has {} tokens, the context holds {}{}",
                request.prompt.size(), context(),
                request.prompt.size() == static_cast<size_t>(context()) ? " with the answer" : "");
  check_ids(model_, request.prompt);
  check_choices(request);
  const auto ticket = std::make_shared<Ticket>(std::move(request));
  auto job = std::make_unique<Job>(model_, ticket);
  {
    const std::lock_guard lock(mutex_);
    if (queued_ >= options_.queue)
      throw QueueFull(ErrorKind::kLimit, "the queue is full: {} requests wait, the limit is {}",
                      queued_, options_.queue);
    ticket->wake_ = [this] {
      {
        const std::lock_guard own(mutex_);
        woken_ = true;
      }
      wake_.notify_one();
    };
    job->number = next_number_++;
    incoming_.push_back(std::move(job));
    ++queued_;
    ++counts_.requests;
  }
  wake_.notify_one();
  return ticket;
}

void Scheduler::check_choices(const GenerateRequest& request) const {
  if (!request.choices.empty() &&
      (request.logprobs >= 0 || request.prompt_scores || request.grammar))
    throw Error(ErrorKind::kInput,
                "choices cannot be combined with logprobs, prompt scores or a grammar");
  for (const std::vector<int32_t>& choice : request.choices) {
    if (choice.empty()) throw Error(ErrorKind::kInput, "a choice has no tokens");
    if (request.prompt.size() + choice.size() > static_cast<size_t>(context()))
      throw Error(ErrorKind::kLimit, "prompt and choice have {} tokens, the context holds {}",
                  request.prompt.size() + choice.size(), context());
    check_ids(model_, choice);
  }
}

void Scheduler::alone(const std::function<void(Model&)>& use) {
  std::packaged_task<void()> task([&] { use(model_); });
  std::future<void> over = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    uses_.push_back(std::move(task));
  }
  wake_.notify_one();
  over.get();
}

// Runs one call of alone(), so that answers continue between two of them.
void Scheduler::run_uses() {
  std::packaged_task<void()> task;
  {
    const std::lock_guard lock(mutex_);
    if (uses_.empty()) return;
    task = std::move(uses_.front());
    uses_.pop_front();
  }
  task();
}

int32_t Scheduler::save(std::span<const int32_t> ids, std::string_view note,
                        const std::string& path) {
  check_ids(model_, ids);
  int32_t tokens = 0;
  alone([&](Model&) { tokens = sequences_.save(ids, note, path); });
  return tokens;
}

SavedSequence Scheduler::load(const std::string& path) {
  SavedSequence saved;
  alone([&](Model&) { saved = sequences_.load(path); });
  return saved;
}

// The files of ended answers are queued before the call of alone() begins.
void Scheduler::flush_files() {
  alone([&](Model&) {
    if (store_) store_->flush();
  });
}

SchedulerBytes Scheduler::bytes() const { return speculation_.bytes(); }

SchedulerCounts Scheduler::counts() const {
  const std::lock_guard lock(mutex_);
  SchedulerCounts counts = counts_;
  counts.waiting = queued_;
  if (store_) counts.disk = store_->counts();
  return counts;
}

// Waits for work and queues the requests that came. Returns false if the scheduler stops.
bool Scheduler::wait() {
  bool stop = false;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] {
      return stop_ || woken_ || !incoming_.empty() || !uses_.empty() || !policy_.idle();
    });
    if (std::exchange(woken_, false)) check_cancelled_ = true;
    fresh_.swap(incoming_);
    stop = stop_;
  }
  // Without the scheduler's lock: ending a job takes the ticket's lock, and Ticket::cancel() takes
  // both, the ticket's first.
  for (; !fresh_.empty(); fresh_.pop_front()) policy_.enqueue(std::move(fresh_.front()));
  return !stop;
}

void Scheduler::publish() {
  const std::lock_guard lock(mutex_);
  const int64_t requests = counts_.requests;
  queued_ = policy_.waiting() + std::ssize(incoming_);
  counts_ = own_;
  counts_.requests = requests;
  counts_.running = std::ssize(policy_.running());
  counts_.kept = sequences_.kept();
  counts_.used_pages = session_.used_pages();
  counts_.cache_use = session_.cache_use();
}

void Scheduler::loop() {
  while (wait()) {
    run_uses();
    try {
      if (std::exchange(check_cancelled_, false)) policy_.drop_cancelled();
      policy_.admit();
      step();
    } catch (...) {  // belongs to no single request
      policy_.fail_running(std::current_exception());
    }
    publish();
  }
  policy_.cancel_all();
}

void Scheduler::step() {
  speculation_.draft(policy_.running());
  if (!policy_.compose(batch_)) return;
  const double start = seconds_now();
  const size_t plans = session_.plans();
  batch_.chained =
      !model_.backend().runs_on_host() && nothing_came() && policy_.compose_chain(batch_);
  if (batch_.chained)
    session_.run_chain(batch_.parts, batch_.chain);
  else
    session_.run(batch_.parts);
  batch_.planned = session_.plans() > plans;
  commit_.apply(batch_);
  policy_.settle(batch_);
  batch_.seconds = seconds_now() - start;
  own_.steps += batch_.steps;
  own_.chained_steps += batch_.chained ? batch_.steps : 0;
  own_.busy_seconds += batch_.seconds;
  if (!batch_.prefills && !batch_.planned)
    speculation_.record(batch_.rows(), batch_.seconds / batch_.steps);
  policy_.record(batch_);
}

// New requests and calls of alone() would wait for the end of a chained decode.
bool Scheduler::nothing_came() {
  const std::lock_guard lock(mutex_);
  return incoming_.empty() && uses_.empty();
}

}  // namespace veery
