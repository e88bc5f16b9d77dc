#include "schedule/job_queue.h"

#include <algorithm>
#include <optional>

namespace veery {

bool JobQueue::waits(std::string_view user) const {
  return std::ranges::any_of(levels_,
                             [&](const auto& level) { return level.second.jobs.contains(user); });
}

double JobQueue::least_served() const {
  if (levels_.empty()) return last_served_;
  double least = levels_.begin()->second.order.begin()->first;
  for (const auto& [priority, level] : levels_) least = std::min(least, level.order.begin()->first);
  return least;
}

// Users who are known by their address come and go, so that their counters would pile up.
void JobQueue::forget_users() {
  if (served_.size() < forget_at_) return;
  const double least = least_served();
  const auto forget = [&](bool all) {
    std::erase_if(served_, [&](const auto& user) {
      return (all || user.second <= least) && !waits(user.first);
    });
  };
  forget(/*all=*/false);  // their counters would be raised to `least` when they come back
  if (served_.size() >= kMostUsers) forget(/*all=*/true);
  forget_at_ = std::max(kMostUsers, 2 * served_.size());
}

double JobQueue::raise_counter(const std::string& user) {
  if (waits(user)) return served_.at(user);
  forget_users();
  const double least = least_served();
  double& served = served_[user];
  served = std::max(served, least);
  return served;
}

void JobQueue::add(std::unique_ptr<Job>&& job, bool front) {
  const std::string& user = job->request().user;
  const double served = raise_counter(user);
  const auto level = levels_.try_emplace(job->request().priority).first;
  try {
    const auto [own, fresh] = level->second.jobs.try_emplace(user);
    if (fresh) level->second.order.insert({served, own->first});
    if (front)
      own->second.push_front(std::move(job));
    else
      own->second.push_back(std::move(job));
  } catch (...) {
    drop_empty(level, user);
    throw;
  }
  ++size_;
}

void JobQueue::drop_empty(Levels::iterator level, std::string_view user) {
  const auto own = level->second.jobs.find(user);
  if (own != level->second.jobs.end() && own->second.empty()) {
    level->second.order.erase({served_.find(user)->second, own->first});
    level->second.jobs.erase(own);
  }
  if (level->second.jobs.empty()) levels_.erase(level);
}

void JobQueue::charge(const Job& job, double tokens) {
  double& served = served_[job.request().user];
  const double before = served;
  served += tokens / job.request().weight;
  for (auto& [priority, level] : levels_) {
    auto node = level.order.extract({before, job.request().user});
    if (node.empty()) continue;
    node.value().first = served;
    level.order.insert(std::move(node));
  }
}

std::unique_ptr<Job> JobQueue::take(const MayBegin& may_begin, const MayServe& may_serve,
                                    int32_t least_priority) {
  for (auto level = levels_.begin(); level != levels_.end() && level->first >= least_priority;
       ++level) {
    for (const auto& [served, user] : level->second.order) {
      if (may_serve && !may_serve(user)) continue;
      Jobs& jobs = level->second.jobs.find(user)->second;
      const auto found =
          std::ranges::find_if(jobs, [&](const auto& job) { return may_begin(*job); });
      if (found == jobs.end()) continue;
      std::unique_ptr<Job> job = std::move(*found);
      jobs.erase(found);
      last_served_ = served;
      --size_;
      drop_empty(level, job->request().user);
      return job;
    }
  }
  return nullptr;
}

void JobQueue::erase_if(const std::function<bool(std::unique_ptr<Job>&)>& gone) {
  for (auto& [priority, level] : levels_) {
    for (auto& [user, jobs] : level.jobs)
      size_ -= static_cast<int64_t>(std::erase_if(jobs, [&](auto& job) { return gone(job); }));
    std::erase_if(level.order,
                  [&](const auto& entry) { return level.jobs.find(entry.second)->second.empty(); });
    std::erase_if(level.jobs, [](const auto& user) { return user.second.empty(); });
  }
  std::erase_if(levels_, [](const auto& level) { return level.second.jobs.empty(); });
}

namespace {

using Running = std::vector<std::unique_ptr<Job>>;
using Counts = std::map<std::string_view, int64_t>;

Counts counts_of(const Running& running) {
  Counts counts;
  for (const auto& job : running) ++counts[job->request().user];
  return counts;
}

// Considers jobs up to `priority` of users with `least` or more running jobs.
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

Preemption choose_preemption(JobQueue& waiting, const Running& running,
                             const JobQueue::MayBegin& may_begin) {
  const Counts counts = counts_of(running);
  std::optional<int32_t> least;  // priority that has a victim
  for (const auto& job : running)
    if (counts.at(job->request().user) > 1)
      least = std::min(least.value_or(INT32_MAX), job->request().priority);
  Preemption preemption;
  if (!least) return preemption;
  preemption.job = waiting.take(
      may_begin, [&](std::string_view user) { return !counts.contains(user); }, *least);
  if (preemption.job)
    preemption.victim = *last_of_busiest(running, counts, preemption.job->request().priority, 2);
  return preemption;
}

}  // namespace veery
