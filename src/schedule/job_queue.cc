#include "schedule/job_queue.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace veery {

bool JobQueue::waits(std::string_view user) const {
  return std::ranges::any_of(
      levels_, [&](const auto& level) { return level.second.find(user) != level.second.end(); });
}

double JobQueue::least_served() const {
  double least = last_served_;
  bool found = false;
  for (const auto& [priority, level] : levels_)
    for (const auto& [user, jobs] : level) {
      const auto own = served_.find(user);
      const double served = own == served_.end() ? 0 : own->second;
      least = found ? std::min(least, served) : served;
      found = true;
    }
  return least;
}

// Users come and go, those that are known by their address above all.
void JobQueue::forget_users() {
  if (served_.size() < kMostUsers) return;
  const double least = least_served();
  const auto forget = [&](bool all) {
    std::erase_if(served_, [&](const auto& user) {
      return (all || user.second <= least) && !waits(user.first);
    });
  };
  forget(/*all=*/false);  // these would be raised to it when they come back
  if (served_.size() >= kMostUsers) forget(/*all=*/true);
}

JobQueue::Jobs& JobQueue::jobs_of(const Job& job) {
  const std::string& user = job.request().user;
  if (!waits(user)) {
    forget_users();
    const double least = least_served();
    double& served = served_[user];
    served = std::max(served, least);
  }
  ++size_;
  return levels_[job.request().priority][user];
}

void JobQueue::push(std::unique_ptr<Job> job) {
  Jobs& jobs = jobs_of(*job);
  jobs.push_back(std::move(job));
}

void JobQueue::push_front(std::unique_ptr<Job> job) {
  Jobs& jobs = jobs_of(*job);
  jobs.push_front(std::move(job));
}

void JobQueue::charge(const Job& job, double tokens) {
  served_[job.request().user] += tokens / job.request().weight;
}

std::unique_ptr<Job> JobQueue::take(const MayBegin& may_begin, const MayServe& may_serve) {
  for (auto level = levels_.begin(); level != levels_.end(); ++level) {
    std::vector<std::pair<double, Level::iterator>> users;
    for (auto user = level->second.begin(); user != level->second.end(); ++user)
      if (!may_serve || may_serve(user->first)) users.emplace_back(served_[user->first], user);
    std::ranges::stable_sort(users, {}, [](const auto& user) { return user.first; });
    for (const auto& [served, user] : users) {
      Jobs& jobs = user->second;
      const auto found =
          std::ranges::find_if(jobs, [&](const auto& job) { return may_begin(*job); });
      if (found == jobs.end()) continue;
      std::unique_ptr<Job> job = std::move(*found);
      jobs.erase(found);
      last_served_ = served;
      --size_;
      if (jobs.empty()) level->second.erase(user);
      if (level->second.empty()) levels_.erase(level);
      return job;
    }
  }
  return nullptr;
}

void JobQueue::erase_if(const std::function<bool(std::unique_ptr<Job>&)>& gone) {
  for (auto& [priority, level] : levels_) {
    for (auto& [user, jobs] : level)
      size_ -= static_cast<int64_t>(std::erase_if(jobs, [&](auto& job) { return gone(job); }));
    std::erase_if(level, [](const auto& user) { return user.second.empty(); });
  }
  std::erase_if(levels_, [](const auto& level) { return level.second.empty(); });
}

namespace {

using Running = std::vector<std::unique_ptr<Job>>;
using Counts = std::map<std::string_view, int64_t>;

Counts counts_of(const Running& running) {
  Counts counts;
  for (const auto& job : running) ++counts[job->request().user];
  return counts;
}

// Of the jobs up to a priority, of a user with `least` jobs or more; absent: there is none.
std::optional<size_t> last_of_busiest(const Running& running, const Counts& counts,
                                      int32_t priority, int64_t least) {
  std::optional<size_t> last;
  for (size_t i = 0; i < running.size(); ++i) {
    const GenerateRequest& request = running[i]->request();
    const int64_t count = counts.at(request.user);
    if (request.priority > priority || count < least) continue;
    least = count;
    last = i;
  }
  return last;
}

}  // namespace

size_t last_of_busiest(const Running& running) {
  return *last_of_busiest(running, counts_of(running), INT32_MAX, 1);
}

PlaceChange change_place(JobQueue& waiting, const Running& running,
                         const JobQueue::MayBegin& may_begin) {
  const Counts counts = counts_of(running);
  PlaceChange change;
  const auto find_victim = [&](int32_t priority) {
    const std::optional<size_t> found = last_of_busiest(running, counts, priority, 2);
    change.victim = found.value_or(0);
    return found.has_value();
  };
  change.job = waiting.take(
      [&](const Job& job) { return find_victim(job.request().priority) && may_begin(job); },
      [&](const std::string& user) { return !counts.contains(user); });
  return change;
}

}  // namespace veery
