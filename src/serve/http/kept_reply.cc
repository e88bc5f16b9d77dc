#include "serve/http/kept_reply.h"

#include <utility>

namespace veery::serve {

void KeptReply::send(int status, std::string_view type, std::string body) {
  begin(status, type);
  body_ = std::move(body);
  ended_ = true;
}

void KeptReply::begin(int status, std::string_view type) {
  status_ = status;
  type_ = type;
  begun_ = true;
}

bool KeptReply::write(std::string piece) {
  if (gone()) return false;
  body_ += piece;
  return true;
}

bool KeptReply::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void KeptReply::on_gone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!gone_) {
      calls_.push_back(std::move(call));
      return;
    }
  }
  call();
}

void KeptReply::leave() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    calls = std::exchange(calls_, {});
  }
  for (const auto& call : calls) call();
}

}  // namespace veery::serve
