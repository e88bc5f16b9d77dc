#include "serve/http/exchange.h"

#include <utility>

#include "base/clock.h"

namespace veery::serve {

Exchange::~Exchange() {
  if (record_.seconds == 0) set_sent(false);  // the loop has ended without sending it
  if (finished_) finished_(record_);
}

void Exchange::add_header(std::string name, std::string value) {
  const std::lock_guard lock(mutex_);
  headers_.push_back({std::move(name), std::move(value)});
}

void Exchange::send(int status, std::string_view type, std::string body) {
  {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    begun_ = ended_ = true;
    next_ = {true, status, std::string(type), headers_, true, std::move(body), true};
  }
  wake_();
}

void Exchange::begin(int status, std::string_view type) {
  {
    const std::lock_guard lock(mutex_);
    if (begun_) return;
    begun_ = true;
    next_ = {true, status, std::string(type), headers_, false, {}, false};
  }
  wake_();
}

bool Exchange::write(std::string piece) {
  {
    std::unique_lock lock(mutex_);
    // This ends: the loop disconnects clients that do not read.
    drained_.wait(lock, [&] { return gone_ || next_.body.size() < kMostWaiting; });
    if (gone_ || ended_) return false;
    next_.body += piece;
  }
  wake_();
  return true;
}

void Exchange::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = next_.last = true;
  }
  wake_();
}

bool Exchange::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

bool Exchange::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool Exchange::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

void Exchange::on_gone(std::function<void()> call) {
  bool now = false;
  {
    const std::lock_guard lock(mutex_);
    now = gone_ || ending_;
    if (!now) on_gone_.push_back(std::move(call));
  }
  if (now) call();
}

void Exchange::returned() {
  {
    const std::lock_guard lock(mutex_);
    returned_ = true;
    on_gone_.clear();
  }
  wake_();
}

bool Exchange::take(Output& output) {
  {
    const std::lock_guard lock(mutex_);
    const bool some = next_.head || !next_.body.empty() || (next_.last && !taken_last_);
    if (!some && !returned_) return false;
    output = std::exchange(next_, {});
    output.last = output.last || returned_;
    taken_last_ = taken_last_ || output.last;
  }
  drained_.notify_one();
  return true;
}

void Exchange::set_gone() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(gone_, true)) return;
    calls = std::exchange(on_gone_, {});
  }
  drained_.notify_all();
  for (const auto& call : calls) call();
}

void Exchange::set_ending() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    calls = std::exchange(on_gone_, {});
  }
  for (const auto& call : calls) call();
}

bool Exchange::complete() const {
  const std::lock_guard lock(mutex_);
  return begun_ && ended_;
}

void Exchange::count_sent(int status, size_t bytes) {
  record_.status = status;
  record_.bytes += static_cast<int64_t>(bytes);
}

void Exchange::set_sent(bool whole) {
  constexpr int kLeft = 499, kBroken = 500;
  record_.seconds = seconds_now() - record_.begun;
  if (whole) return;
  const std::lock_guard lock(mutex_);
  // The handler returned without ending its answer, although the client was connected.
  const bool broken = returned_ && !(begun_ && ended_) && !gone_;
  record_.status = broken ? kBroken : kLeft;
}

}  // namespace veery::serve
