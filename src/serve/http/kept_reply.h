// kept_reply.h: a reply that is kept in memory instead of being sent.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace veery::serve {

/// Collects the answer of an endpoint. leave() may be called by any thread.
class KeptReply : public Reply {
 public:
  void add_header(std::string, std::string) override {}
  void send(int status, std::string_view type, std::string body) override;
  void begin(int status, std::string_view type) override;
  bool write(std::string piece) override;
  void end() override { ended_ = true; }
  bool begun() const override { return begun_; }
  bool gone() const override;
  bool ending() const override { return false; }
  void on_gone(std::function<void()> call) override;
  RequestRecord& record() override { return record_; }

  /// Acts as if the client disconnected.
  void leave();
  int status() const { return status_; }
  const std::string& type() const { return type_; }
  const std::string& body() const { return body_; }
  /// Whether the answer is complete.
  bool ended() const { return ended_; }

 private:
  RequestRecord record_;
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> calls_;
  bool gone_ = false, begun_ = false, ended_ = false;
  int status_ = 0;
  std::string type_, body_;
};

}  // namespace veery::serve
