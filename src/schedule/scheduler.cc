#include "schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace veery {
namespace {

constexpr int32_t kWorthWaiting = 64;  // tokens that another request is about to have computed
// Tokens of a chain that others may wait for, where these are known to be quick, and at most; the
// part of the longest step that more than a few may take.
constexpr int32_t kShortChain = 8, kMostChained = 128;
constexpr double kChainShare = 0.25;

bool drafts_by_head(const Model& model, const SchedulerOptions& options) {
  return !options.draft_model && options.draft_tokens > 0 && HeadDraft::possible(model);
}

std::unique_ptr<PrefixStore> make_store(Runner& runner, const SchedulerOptions& options) {
  if (options.prefix_store.folder.empty() || runner.model().options().layout_only) return nullptr;
  return std::make_unique<PrefixStore>(runner, options.prefix_store);
}

void check(const SchedulerOptions& options) {
  if (options.slots < 1 || options.slots > kMostSlots)
    throw Error(ErrorKind::kInput, "{} slots are asked for, expected 1 to {}", options.slots,
                kMostSlots);
  if (options.draft_tokens < 0 || options.draft_tokens > kMostDrafted)
    throw Error(ErrorKind::kInput, "drafts of {} tokens are asked for, expected 0 to {}",
                options.draft_tokens, kMostDrafted);
}

// `head`: the model of the layer that predicts further tokens.
CachePlan plan_of(Model& model, Model* head, const SchedulerOptions& options) {
  check(options);
  ScheduledModels models{.model = model};
  if (head != nullptr) {
    models.also = HeadDraft::kRoot;
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
      prompt_rows_(options.longest_step, model.options().chunk),
      head_draft_(head_model_ ? std::make_unique<HeadDraft>(*head_model_, plan_.draft_runner)
                              : nullptr),
      model_draft_(options.draft_model ? std::make_unique<ModelDraft>(model, options.draft_model,
                                                                      plan_.draft_runner)
                                       : nullptr),
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
    throw Error(ErrorKind::kInput, "the prompt is empty: there is no token to begin with");
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
      throw QueueFull(ErrorKind::kLimit, "{} requests wait, no more than {} may", queued_,
                      options_.queue);
    ticket->wake_ = [this] {
      {
        const std::lock_guard own(mutex_);
        woken_ = true;
      }
      wake_.notify_one();
    };
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
                "choices are asked for beside logprobs or a grammar: one of them only");
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

// One at a time, so that answers go on between two of them.
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

// Ended answers are saved before alone() is reached.
void Scheduler::flush_files() {
  alone([&](Model&) {
    if (store_) store_->flush();
  });
}

SchedulerBytes Scheduler::bytes() const {
  SchedulerBytes bytes{runner_.cache_bytes(), runner_.activation_bytes(), 0};
  const auto add = [&](const Runner& runner) {
    bytes.caches += runner.cache_bytes();
    bytes.activations += runner.activation_bytes();
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

// False: it is over.
bool Scheduler::wait() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] {
    return stop_ || woken_ || !incoming_.empty() || !uses_.empty() || !running_.empty() ||
           !waiting_.empty();
  });
  woken_ = false;
  for (; !incoming_.empty(); incoming_.pop_front()) waiting_.push(std::move(incoming_.front()));
  return !stop_;
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

void Scheduler::end(Job& job, std::exception_ptr error) {
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
  const auto cancelled = [&](std::unique_ptr<Job>& job) {
    if (!job->ticket().cancelled()) return false;
    job->cancel();
    end(*job);
    return true;
  };
  std::erase_if(running_, cancelled);
  waiting_.erase_if(cancelled);
}

// Whether a request whose prompt is being computed will soon have more of this one than there is.
bool Scheduler::shares_running_prompt(const Job& job, int32_t found) const {
  const std::span<const int32_t> ids = job.tokens();
  return std::ranges::any_of(running_, [&](const auto& other) {
    if (!other->prompting()) return false;
    const std::span<const int32_t> theirs = other->tokens();
    const auto same = std::mismatch(ids.begin(), ids.end(), theirs.begin(), theirs.end()).first;
    return same - ids.begin() >= found + kWorthWaiting;
  });
}

// Not yet if another request is about to compute the beginning of its prompt.
bool Scheduler::may_begin(const Job& job) const {
  if (job.request().prompt_scores) return true;
  const int32_t found = sequences_.match(job.tokens(), job.positions(runner_.context()));
  return !shares_running_prompt(job, found);
}

void Scheduler::admit() {
  if (running_.empty()) full_ = false;
  const auto ready = [&](const Job& job) { return may_begin(job); };
  while (!waiting_.empty()) {
    std::unique_ptr<Job> job;
    if (!full_ && std::ssize(running_) < plan_.slots) {
      job = waiting_.take(ready);
    } else if (PlaceChange change = change_place(waiting_, running_, ready); change.job) {
      give_back(running_[change.victim], /*keep=*/true);
      running_.erase(running_.begin() + static_cast<ptrdiff_t>(change.victim));
      job = std::move(change.job);
    }
    if (!job) return;
    running_.push_back(std::move(job));  // so that an error of begin() is told to it
    begin(*running_.back());
  }
}

// A running job waits again. `keep`: what it computed stays, as long as there is memory for it.
void Scheduler::give_back(std::unique_ptr<Job>& job, bool keep) {
  if (keep)
    sequences_.keep(job->sequence, /*files=*/false);
  else
    sequences_.drop(job->sequence);
  job->sequence = -1;
  job->restart();
  if (head_draft_) head_draft_->forget(job.get());
  ++own_.preempted;
  waiting_.push_front(std::move(job));
}

void Scheduler::begin(Job& job) {
  const int32_t positions = job.positions(runner_.context());
  if (!job.request().prompt_scores) sequences_.restore(job.tokens(), positions);
  job.sequence = job.request().prompt_scores ? sequences_.take_empty(positions)
                                             : sequences_.take(job.tokens(), positions);
  job.run = runner_.position(job.sequence);
  if (!std::exchange(job.begun, true)) {
    const int64_t prompt = std::ssize(job.request().prompt) - job.run;
    own_.reused_tokens += job.run;
    own_.prompt_tokens += prompt;
    own_.latencies.queue.add(seconds_now() - job.submitted());
    waiting_.charge(job, static_cast<double>(prompt));
    job.count_prompt(job.run);
  }
}

// One token of each answer, and of prompts, in the order in which they were begun, what fits.
bool Scheduler::make_parts() {
  parts_.clear();
  in_step_.clear();
  const auto add = [&](Job& job, int32_t most) {
    parts_.push_back(job.part(most));
    parts_.back().mask = job.mask();
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

// Gives memory back: what is kept, then the job begun last of the user with the most, which is
// computed again later. False: there is nothing but one answer.
bool Scheduler::make_room() {
  if (sequences_.drop_oldest()) return true;
  if (running_.size() < 2) return false;
  const size_t victim = last_of_busiest(running_);
  give_back(running_[victim], /*keep=*/false);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(victim));
  full_ = true;  // what was taken back would be so again
  return true;
}

void Scheduler::step() {
  make_drafts();
  while (make_parts()) {
    if (runner_.fits(parts_)) return run_parts();
    if (make_room()) continue;
    const Error error(ErrorKind::kLimit, "the caches have no memory left for one answer");
    end(*running_.front(), std::make_exception_ptr(error));
    running_.erase(running_.begin());
  }
}

// To a position that it has accepted. Layers may no longer have it after a choice, which is no
// draft and as long as it likes: then the sequence begins anew.
void Scheduler::go_back(Job& job, int32_t position) {
  if (runner_.can_rewind(job.sequence, position)) return runner_.rewind(job.sequence, position);
  sequences_.drop(job.sequence);
  job.restart();
  begin(job);
}

// The hidden states of the `count` tokens that it has accepted last, from `row` of the run on.
void Scheduler::show_head(const Job& job, int64_t row, int32_t count) {
  const std::span<const int32_t> tokens = job.tokens();
  if (!job.request().choices.empty() || std::ssize(tokens) <= job.run) return;
  hidden_.clear();
  for (int64_t i = row; i < row + count; ++i) {
    const std::span<const float> hidden = runner_.also(i);
    hidden_.insert(hidden_.end(), hidden.begin(), hidden.end());
  }
  const int32_t begin = job.run - count;
  head_draft_->show(&job, begin,
                    tokens.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(count)),
                    hidden_);
}

// Of each answer. What comes meanwhile waits, and text comes in one piece, so they take a part of
// the longest step.
int32_t Scheduler::chain_tokens(int32_t most) const {
  if (std::ranges::all_of(in_step_, [](Job* job) { return job->request().whole; })) return most;
  const int32_t few = std::min(most, kShortChain);
  if (seconds_per_step_ <= 0) return few;
  if (seconds_per_step_ * few > options_.longest_step) return 0;
  const double count = kChainShare * options_.longest_step / seconds_per_step_;
  return count >= most ? most : std::max(static_cast<int32_t>(count), few);
}

// Whether the model's device can make several tokens of each answer without coming back in between.
// What an answer does not want of them, those behind its end, has to be taken back.
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

// Makes of each part one that tests what was made; returns the steps that it took.
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

// Side by side. A model on a device leaves the team asleep, of which 16 workers took half a
// millisecond to come: a piece is then as many choices as take less.
void Scheduler::choose() {
  constexpr int64_t kQuick = 16;
  const auto needs_logits = [](const RunPart& part) {
    return part.outputs > 0 && part.wants == Wants::kLogits;
  };
  const bool quick = runner_.chained() ||
                     (!model_.backend().runs_on_host() && std::ranges::none_of(parts_, needs_logits));
  model_.pool().parallel_for(
      std::ssize(parts_), quick ? kQuick : 1, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
          if (parts_[i].outputs > 0) in_step_[i]->choose(runner_, first_outputs_[i], parts_[i]);
      });
}

// Those that the job delivered since the last call.
void Scheduler::count_tokens(Job& job, double now) {
  constexpr double kAnswerCost = 2;  // of a token, where one of a prompt costs 1 (Sheng et al.)
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
    Job& job = *in_step_[i];
    const auto size = std::ssize(parts_[i].ids);
    const bool was_prompt = job.prompting();
    prompts = prompts || was_prompt;
    const int32_t accepted = job.accepted(parts_[i]);
    sequences_.append(job.sequence, parts_[i].ids.first(static_cast<size_t>(accepted)));
    if (accepted < std::ssize(parts_[i].ids) && !job.within_choice())
      go_back(job, job.run + accepted);
    job.settle(accepted);
    if (was_prompt && accepted > 0 && job.run == std::ssize(job.tokens()))
      runner_.save(job.sequence);
    const bool over = !job.failure() && job.deliver(runner_.context());
    count_tokens(job, chosen);
    if (job.failure())
      end(job, job.failure());
    else if (over)
      end(job);
    else if (head_draft_)
      show_head(job, first_row, accepted);
    first_row += size;
  }
  std::erase_if(running_, [](const auto& job) { return job->sequence < 0; });
  const double seconds = seconds_now() - start;
  own_.steps += steps;
  own_.chained_steps += chained ? steps : 0;
  own_.busy_seconds += seconds;
  if (!prompts && !planned) {
    draft_length_.measured(chained ? static_cast<int32_t>(parts_.size()) : rows, seconds / steps);
    seconds_per_step_ = seconds / steps;
  }
  if (!planned && !chained) prompt_rows_.measured(rows, seconds);
}

}  // namespace veery
