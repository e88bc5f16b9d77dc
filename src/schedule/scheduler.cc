#include "schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace veery {
namespace {

constexpr int32_t kShortChain = 8;     // tokens of a chain if decode steps are not measured yet
constexpr int32_t kMostChained = 128;  // tokens of a chain, at most
constexpr double kChainShare = 0.25;   // of the longest step, for chains above kShortChain

bool drafts_by_head(const Model& model, const SchedulerOptions& options) {
  return !options.draft_model && options.draft_tokens > 0 && HeadDraft::possible(model);
}

std::unique_ptr<PrefixStore> make_store(Runner& runner, const SchedulerOptions& options) {
  if (options.prefix_store.folder.empty() || runner.model().options().layout_only) return nullptr;
  return std::make_unique<PrefixStore>(runner, options.prefix_store);
}

void check(const SchedulerOptions& options) {
  if (options.slots < 1 || options.slots > kMostSlots)
    throw Error(ErrorKind::kInput, "slots is {}, expected 1 to {}", options.slots, kMostSlots);
  if (options.draft_tokens < 0 || options.draft_tokens > kMostDrafted)
    throw Error(ErrorKind::kInput, "draft_tokens is {}, expected 0 to {}", options.draft_tokens,
                kMostDrafted);
}

std::vector<std::unique_ptr<Job>> reserved_jobs(int32_t count) {
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.reserve(static_cast<size_t>(count));
  return jobs;
}

// `head`: the model of the MTP head, may be null.
CachePlan plan_of(Model& model, Model* head, const SchedulerOptions& options) {
  check(options);
  ScheduledModels models{.model = model};
  if (head != nullptr) {
    models.roots = {HeadDraft::kRoot};
    models.draft = head;
    models.draft_options = [&](int32_t slots) { return HeadDraft::runner_options(model, slots); };
  } else if (options.draft_model) {
    models.draft = options.draft_model.get();
    models.draft_options = [&](int32_t slots) {
      return ModelDraft::runner_options(*options.draft_model, slots);
    };
  }
  return plan_caches(models, {.slots = options.slots,
                              .kept = options.kept,
                              .positions = options.positions,
                              .draft_tokens = options.draft_tokens,
                              .cache_bytes = options.cache_bytes,
                              .memory_bytes = options.memory_bytes,
                              .at_least_one = options.at_least_one,
                              .fewer_slots = options.fewer_slots});
}

}  // namespace

Scheduler::Scheduler(Model& model, const SchedulerOptions& options)
    : model_(model),
      options_(options),
      head_model_(drafts_by_head(model, options) ? HeadDraft::make_model(model) : nullptr),
      plan_(plan_of(model, head_model_.get(), options)),
      runner_(model, plan_.runner),
      store_(make_store(runner_, options)),
      sequences_(runner_, plan_.slots + plan_.kept, store_.get()),
      running_(reserved_jobs(plan_.slots)),
      prompt_rows_(options.longest_step, model.options().chunk),
      head_draft_(head_model_ ? std::make_unique<HeadDraft>(*head_model_, plan_.draft_runner)
                              : nullptr),
      model_draft_(options.draft_model ? std::make_unique<ModelDraft>(model, options.draft_model,
                                                                      plan_.draft_runner)
                                       : nullptr),
      head_roots_(head_draft_ ? std::vector{runner_.root(HeadDraft::kRoot)}
                              : std::vector<RootId>()),
      maker_(head_draft_ ? static_cast<DraftMaker*>(head_draft_.get()) : model_draft_.get()),
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

SchedulerBytes Scheduler::bytes() const {
  SchedulerBytes bytes{runner_.cache_bytes(), runner_.activation_bytes(), 0};
  const auto add = [&](const Runner& runner) {
    bytes.caches += runner.cache_bytes();
    bytes.add_activations(model_, runner.model(), runner.activation_bytes());
    bytes.drafts += runner.model().weight_bytes();
  };
  if (head_draft_) add(head_draft_->runner());
  if (model_draft_) add(model_draft_->runner());
  return bytes;
}

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
      return stop_ || woken_ || !incoming_.empty() || !uses_.empty() || !running_.empty() ||
             !waiting_.empty();
    });
    if (std::exchange(woken_, false)) check_cancelled_ = true;
    fresh_.swap(incoming_);
    stop = stop_;
  }
  // Without the scheduler's lock: end() takes the ticket's lock, and Ticket::cancel() takes both,
  // the ticket's first.
  for (; !fresh_.empty(); fresh_.pop_front()) try {
      waiting_.push(std::move(fresh_.front()));
    } catch (...) {
      end(*fresh_.front(), std::current_exception());
    }
  return !stop;
}

void Scheduler::publish() {
  const std::lock_guard lock(mutex_);
  const int64_t requests = counts_.requests;
  queued_ = waiting_.size() + std::ssize(incoming_);
  counts_ = own_;
  counts_.requests = requests;
  counts_.running = std::ssize(running_);
  counts_.kept = sequences_.kept();
  counts_.used_pages = runner_.used_pages();
  counts_.cache_use = runner_.cache_use();
}

void Scheduler::loop() {
  while (wait()) {
    run_uses();
    try {
      drop_cancelled();
      admit();
      step();
    } catch (...) {
      fail_all(std::current_exception());
    }
    publish();
  }
  const auto cancel = [](std::unique_ptr<Job>& job) {
    job->cancel();
    job->finish();
    return true;
  };
  std::erase_if(running_, cancel);
  waiting_.erase_if(cancel);
}

// An exception that belongs to no single request fails every running request.
void Scheduler::fail_all(const std::exception_ptr& error) {
  for (auto& job : running_) end(*job, error);
  running_.clear();
}

// Does nothing if the job has ended. Does not throw.
void Scheduler::end(Job& job, std::exception_ptr error) {
  if (job.finished()) return;
  if (head_draft_) head_draft_->forget(&job);
  own_.drafted_tokens += static_cast<int64_t>(job.result().drafted_tokens);
  own_.accepted_tokens += static_cast<int64_t>(job.result().accepted_tokens);
  if (job.sequence >= 0) {
    if (error)
      sequences_.drop(job.sequence);
    else
      sequences_.keep(job.sequence, !job.scores());
    job.sequence = -1;
  }
  full_ = false;
  const bool failed = error != nullptr;
  job.finish(std::move(error));
  own_.latencies.whole.add(seconds_now() - job.submitted());
  const FinishReason reason = job.result().finish;
  ++(failed                               ? own_.failed
     : reason == FinishReason::kCancelled ? own_.cancelled
     : reason == FinishReason::kLength    ? own_.cut
                                          : own_.stopped);
}

void Scheduler::drop_cancelled() {
  if (!std::exchange(check_cancelled_, false)) return;
  const auto cancelled = [&](std::unique_ptr<Job>& job) {
    if (!job->ticket().cancelled()) return false;
    job->cancel();
    end(*job);
    return true;
  };
  std::erase_if(running_, cancelled);
  waiting_.erase_if(cancelled);
}

// Makes one part per decoding answer and, in the order in which the requests were begun, prefill
// chunks for the rows that are left.
bool Scheduler::make_parts() {
  parts_.clear();
  in_step_.clear();
  const auto add = [&](Job& job, int32_t most) {
    parts_.push_back(job.part(most));
    parts_.back().mask = job.mask();
    parts_.back().roots = head_roots_;
    in_step_.push_back(&job);
    return static_cast<int32_t>(parts_.back().ids.size());
  };
  int32_t rows = 0, outputs = runner_.most_outputs();
  for (auto& job : running_)
    if (!job->prompting()) {
      rows += add(*job, 1);
      outputs -= parts_.back().outputs;
    }
  int32_t room = (rows > 0 ? prompt_rows_.next() : model_.options().chunk);
  room = std::min(room, runner_.most_rows() - rows);
  for (auto& job : running_) {
    if (!job->prompting() || room <= 0 || outputs <= 0) continue;
    room -= add(*job, job->scores_rows() ? std::min(room, outputs) : room);
    outputs -= parts_.back().outputs;
  }
  return !parts_.empty();
}

// Frees memory of the caches: evicts a cached prefix, else preempts the job that was begun last of
// the user with the most running jobs. Returns false if only one answer runs.
bool Scheduler::make_room() {
  if (sequences_.drop_oldest()) return true;
  if (running_.size() < 2) return false;
  const size_t victim = last_of_busiest(running_);
  preempt(running_[victim], /*keep=*/false);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(victim));
  full_ = true;  // if it was admitted now, it would be preempted again
  return true;
}

void Scheduler::step() {
  make_drafts();
  while (make_parts()) {
    if (runner_.fits(parts_)) return run_parts();
    if (make_room()) continue;
    const Error error(ErrorKind::kLimit, "the caches are too small for the next step of an answer");
    end(*running_.front(), std::make_exception_ptr(error));
    running_.erase(running_.begin());
  }
}

// Rewinds the job to a position. After a choice, which may be longer than any draft, windows and
// recurrent states may not reach back to it; then the sequence is run again.
void Scheduler::go_back(Job& job, int32_t position) {
  if (runner_.can_rewind(job.sequence, position)) return runner_.rewind(job.sequence, position);
  sequences_.drop(std::exchange(job.sequence, -1));
  job.restart();
  begin(job);
}

// Passes the hidden states of the last `count` accepted tokens to the MTP head; `row`: of the first
// of them in the run.
void Scheduler::show_head(const Job& job, int64_t row, int32_t count) {
  const std::span<const int32_t> tokens = job.tokens();
  if (!job.request().choices.empty() || std::ssize(tokens) <= job.run) return;
  hidden_.clear();
  for (int64_t i = row; i < row + count; ++i) {
    const std::span<const float> hidden = runner_.row(head_roots_.front(), i);
    hidden_.insert(hidden_.end(), hidden.begin(), hidden.end());
  }
  const int32_t begin = job.run - count;
  head_draft_->show(&job, begin,
                    tokens.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(count)),
                    hidden_);
}

// Returns the number of chained tokens per answer. New requests wait for the end of a chain and its
// text arrives in one piece, so a chain takes only a part of the longest step, unless all answers
// are read as a whole.
int32_t Scheduler::chain_tokens(int32_t most) const {
  if (std::ranges::all_of(in_step_, [](Job* job) { return job->request().whole; })) return most;
  const int32_t few = std::min(most, kShortChain);
  if (seconds_per_step_ <= 0) return few;
  if (seconds_per_step_ * few > options_.longest_step) return 0;
  const double count = kChainShare * options_.longest_step / seconds_per_step_;
  return count >= most ? most : std::max(static_cast<int32_t>(count), few);
}

// Whether the device can decode several tokens of each answer in one submission. Tokens after the
// end of an answer must be undone, so the sequences must allow that.
bool Scheduler::make_chain() {
  chain_rows_.clear();
  if (!waiting_.empty() || model_.backend().runs_on_host()) return false;
  {
    const std::lock_guard lock(mutex_);
    if (!incoming_.empty() || !uses_.empty()) return false;
  }
  int32_t longest = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].ids.size() != 1 || parts_[i].outputs != 1) return false;
    const auto row = in_step_[i]->chain_row(kMostChained, runner_.context());
    if (!row) return false;
    chain_rows_.push_back(*row);
    longest = std::max(longest, row->most);
  }
  if (longest < 2) return false;
  const bool draws = !std::ranges::all_of(chain_rows_, &ChainRow::greedy);
  const int32_t most = chain_tokens(runner_.chain_steps(parts_, draws));
  longest = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    int32_t& own = chain_rows_[i].most;
    own = std::min(own, most);
    while (own > 1 && !runner_.can_undo(parts_[i].sequence, own)) own /= 2;
    if (!runner_.can_undo(parts_[i].sequence, own)) return false;
    longest = std::max(longest, own);
  }
  return longest > 1 && runner_.fits(parts_, longest);
}

// Replaces each part by one that verifies the chained tokens. Returns the number of steps.
int32_t Scheduler::run_chain() {
  runner_.run_chain(parts_, chain_rows_);
  size_t steps = 1;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const std::span<const int32_t> made = runner_.chosen(i);
    in_step_[i]->take_chain(chain_rows_[i], made);
    parts_[i] = made.empty() ? RunPart{parts_[i].sequence, {}, 0} : in_step_[i]->part(1);
    steps = std::max(steps, made.size());
  }
  return static_cast<int32_t>(steps);
}

// Samples for all jobs in parallel. With a model on a device the thread pool sleeps, and waking 16
// workers took 0.5 ms; samplings that take less time are therefore grouped.
void Scheduler::choose() {
  constexpr int64_t kQuick = 16;
  const auto needs_logits = [](const RunPart& part) {
    return part.outputs > 0 && part.wants == Wants::kLogits;
  };
  const bool quick = runner_.chained() || (!model_.backend().runs_on_host() &&
                                           std::ranges::none_of(parts_, needs_logits));
  model_.pool().parallel_for(
      std::ssize(parts_), quick ? kQuick : 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          if (parts_[i].outputs > 0) in_step_[i]->choose(runner_, first_outputs_[i], parts_[i]);
      });
}

// Counts the tokens that the job delivered since the last call.
void Scheduler::count_tokens(Job& job, double now) {
  constexpr double kAnswerCost = 2;  // of a token; a token of a prompt costs 1 (Sheng et al.)
  const int64_t fresh = job.take_fresh();
  if (fresh == 0) return;
  own_.made_tokens += fresh;
  waiting_.charge(job, kAnswerCost * static_cast<double>(fresh));
  const double last = std::exchange(job.last_token, now);
  if (last == 0)
    own_.latencies.first_token.add(now - job.submitted());
  else
    own_.latencies.between_tokens.add((now - last) / static_cast<double>(fresh), fresh);
}

// Updates a job after a run of `part`, whose token rows begin at `first_row` of the run, and
// delivers its text. An exception belongs to this job alone.
void Scheduler::settle_part(Job& job, const RunPart& part, double chosen, int64_t first_row) {
  const bool was_prompt = job.prompting();
  const int32_t accepted = job.accepted(part);
  sequences_.append(job.sequence, part.ids.first(static_cast<size_t>(accepted)));
  if (accepted < std::ssize(part.ids) && !job.within_choice()) go_back(job, job.run + accepted);
  job.settle(accepted);
  if (was_prompt && accepted > 0 && job.run == std::ssize(job.tokens())) runner_.save(job.sequence);
  const bool over = !job.failure() && job.deliver(runner_.context());
  count_tokens(job, chosen);
  if (job.failure())
    end(job, job.failure());
  else if (over)
    end(job);
  else if (head_draft_)
    show_head(job, first_row, accepted);
}

void Scheduler::run_parts() {
  const double start = seconds_now();
  const size_t plans = runner_.plans();
  const bool chained = make_chain();
  const int32_t steps = chained ? run_chain() : 1;
  if (!chained) runner_.run(parts_);
  const bool planned = runner_.plans() > plans;
  first_outputs_.clear();
  int32_t outputs = 0, rows = 0;
  for (const RunPart& part : parts_) {
    first_outputs_.push_back(outputs);
    outputs += part.outputs;
    rows += static_cast<int32_t>(part.ids.size());
  }
  choose();
  const double chosen = seconds_now();
  bool prompts = false;
  int64_t first_row = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto size = std::ssize(parts_[i].ids);
    prompts = prompts || in_step_[i]->prompting();
    try {
      settle_part(*in_step_[i], parts_[i], chosen, first_row);
    } catch (...) {
      end(*in_step_[i], std::current_exception());
    }
    first_row += size;
  }
  std::erase_if(running_, [](const auto& job) { return job->sequence < 0; });
  const double seconds = seconds_now() - start;
  own_.steps += steps;
  own_.chained_steps += chained ? steps : 0;
  own_.busy_seconds += seconds;
  if (!prompts && !planned) {
    draft_length_.record(chained ? static_cast<int32_t>(parts_.size()) : rows, seconds / steps);
    seconds_per_step_ = seconds / steps;
  }
  if (!planned && !chained) prompt_rows_.record(rows, seconds);
}

}  // namespace veery
