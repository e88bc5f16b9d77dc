// job_queue.h: the jobs that wait for a scheduler, in fair order over those who ask (virtual token
// counters: Sheng et al., Fairness in Serving Large Language Models, OSDI 2024).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "schedule/job.h"

namespace veery {

/// Higher priorities go first. Within a priority, the next job belongs to the user who was served
/// the fewest tokens by weight; jobs of one user keep their order. A user who had nothing waiting
/// starts level with the least served user who waits, so that idle time earns no credit. Not
/// thread-safe.
class JobQueue {
 public:
  /// Behind the other jobs of its user and priority.
  void push(std::unique_ptr<Job> job);
  /// Before them: the job was begun already and lost its place.
  void push_front(std::unique_ptr<Job> job);
  using MayBegin = std::function<bool(const Job&)>;
  using MayServe = std::function<bool(const std::string& user)>;
  /// Removes and returns the first job in fair order that `may_begin` takes, of users that
  /// `may_serve` takes; null: there is none.
  std::unique_ptr<Job> take(const MayBegin& may_begin, const MayServe& may_serve = {});
  /// Records that the user of `job` was served `tokens`, of its prompts or its answers.
  void charge(const Job& job, double tokens);
  /// Removes the jobs for which `gone` is true.
  void erase_if(const std::function<bool(std::unique_ptr<Job>&)>& gone);

  bool empty() const { return size_ == 0; }
  int64_t size() const { return size_; }
  size_t users() const { return served_.size(); }  ///< whose counters are kept

 private:
  using Jobs = std::deque<std::unique_ptr<Job>>;
  using Level = std::map<std::string, Jobs, std::less<>>;  // jobs of one priority, by user
  static constexpr size_t kMostUsers = 4096;  // whose counters are kept, beside those who wait

  Jobs& jobs_of(const Job& job);
  bool waits(std::string_view user) const;
  double least_served() const;
  void forget_users();

  std::map<int32_t, Level, std::greater<>> levels_;  // no empty level, no user without jobs in one
  std::map<std::string, double, std::less<>> served_;  // tokens by weight, of each user
  double last_served_ = 0;  // the counter of the user whose job was taken last
  int64_t size_ = 0;
};

/// The position of the job begun last, `running` being in the order in which jobs were begun, of
/// the user with the most jobs in it; of several such users, of all of theirs. `running` is not
/// empty.
size_t last_of_busiest(const std::vector<std::unique_ptr<Job>>& running);

/// Moves one place in `running`, to which nothing can be added: if a user without a running job has
/// one that `may_begin` takes, the job that was begun last of the user with the most running jobs,
/// two at least and none of higher priority, gives its place. Returns that job's position in
/// `running` and the job to begin; the latter is null if nobody gives way.
struct PlaceChange {
  size_t victim = 0;
  std::unique_ptr<Job> job;
};
PlaceChange change_place(JobQueue& waiting, const std::vector<std::unique_ptr<Job>>& running,
                         const JobQueue::MayBegin& may_begin);

}  // namespace veery
