// job_queue.h: the jobs that wait for a scheduler, in an order that is fair to users (virtual token
// counters: Sheng et al., Fairness in Serving Large Language Models, OSDI 2024).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/job.h"

namespace veery {

/// Higher priorities go first. Within a priority, the next job belongs to the user with the lowest
/// counter: tokens served, divided by the user's weight. Jobs of one user keep their order. The
/// counter of a user without waiting jobs is raised to the lowest one of those who wait, so that
/// idle time earns no credit. Not thread-safe.
class JobQueue {
 public:
  /// Adds a job after the other jobs of its user and priority. If it throws (std::bad_alloc), the
  /// queue is unchanged and `job` still holds the job.
  void push(std::unique_ptr<Job>&& job) { add(std::move(job), /*front=*/false); }
  /// Adds a job before them: it was begun already and lost its place. Throws as push() does.
  void push_front(std::unique_ptr<Job>&& job) { add(std::move(job), /*front=*/true); }
  using MayBegin = std::function<bool(Job&)>;
  using MayServe = std::function<bool(std::string_view user)>;
  /// Removes and returns the first job in fair order that `may_begin` accepts, of a user that
  /// `may_serve` accepts and of at least `least_priority`. Returns null if there is none. The cost
  /// grows with the number of users and jobs that are rejected, not with the length of the queue.
  std::unique_ptr<Job> take(const MayBegin& may_begin, const MayServe& may_serve = {},
                            int32_t least_priority = INT32_MIN);
  /// Adds `tokens` of a prompt or an answer to the counter of the job's user.
  void charge(const Job& job, double tokens);
  /// Removes the jobs for which `gone` returns true; `gone` must not throw.
  void erase_if(const std::function<bool(std::unique_ptr<Job>&)>& gone);

  bool empty() const { return size_ == 0; }
  int64_t size() const { return size_; }
  size_t users() const { return served_.size(); }  ///< users with a counter

 private:
  using Jobs = std::deque<std::unique_ptr<Job>>;
  /// The jobs of one priority. No user has an empty list.
  struct Level {
    std::map<std::string, Jobs, std::less<>> jobs;        // by user
    std::set<std::pair<double, std::string_view>> order;  // counter and user, a key of `jobs`
  };
  using Levels = std::map<int32_t, Level, std::greater<>>;
  static constexpr size_t kMostUsers = 4096;  // with a counter, besides those who wait

  void add(std::unique_ptr<Job>&& job, bool front);
  double raise_counter(const std::string& user);
  bool waits(std::string_view user) const;
  double least_served() const;
  void forget_users();
  void drop_empty(Levels::iterator level, std::string_view user);

  Levels levels_;                                      // none is empty
  std::map<std::string, double, std::less<>> served_;  // tokens by weight, of each user
  size_t forget_at_ = kMostUsers;                      // size of served_ at which users go
  double last_served_ = 0;  // the counter of the user whose job was taken last
  int64_t size_ = 0;
};

/// Returns the index of the job that was begun last among the jobs of the user with the most
/// running jobs (of all such users, if there are several). `running`: in the order in which the
/// jobs were begun, not empty.
size_t last_of_busiest(const std::vector<std::unique_ptr<Job>>& running);

/// Chooses a running job that gives way to a waiting one, for a scheduler that has no free slot. If
/// a user without running jobs has a waiting job that `may_begin` accepts, the victim is the job
/// that was begun last of the user with the most running jobs: at least two, and not of a higher
/// priority. Removes the waiting job from the queue and returns it with the victim's index in
/// `running`; `job` is null if no running job gives way.
struct Preemption {
  size_t victim = 0;
  std::unique_ptr<Job> job;
};
Preemption choose_preemption(JobQueue& waiting, const std::vector<std::unique_ptr<Job>>& running,
                             const JobQueue::MayBegin& may_begin);

}  // namespace veery
