// exchange.h: the answer of a thread on its way to the event loop that writes it.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace veery::serve {

/// The thread of the handler puts pieces in, the loop takes them out. Safe between the two.
class Exchange final : public Reply {
 public:
  /// What the loop is to write next.
  struct Output {
    bool head = false;  ///< status, type and headers come first
    int status = 0;
    std::string type;
    std::vector<HttpHeader> headers;
    bool whole = false;  ///< `body` is all of it
    std::string body;
    bool last = false;  ///< nothing follows
  };

  /// `wake` tells the loop that there is something; it may be called from any thread.
  explicit Exchange(std::function<void()> wake) : wake_(std::move(wake)) {}

  void add_header(std::string name, std::string value) override;
  void send(int status, std::string_view type, std::string body) override;
  void begin(int status, std::string_view type) override;
  bool write(std::string piece) override;
  void end() override;
  bool begun() const override;
  bool gone() const override;
  bool ending() const override;
  void on_gone(std::function<void()> call) override;

  /// The handler has returned: an answer that it did not end is broken off.
  void returned();

  // Of the loop:
  /// False: there is nothing yet.
  bool take(Output& output);
  /// The client is gone.
  void set_gone();
  /// The server ends: what the handler still writes is sent, but it should not be much.
  void set_ending();
  /// Whether the answer is as long as it was to be; else the connection has to be closed.
  bool complete() const;

 private:
  static constexpr size_t kMostWaiting = size_t{256} << 10;  // bytes before write() waits

  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::function<void()> wake_, on_gone_;
  std::vector<HttpHeader> headers_;
  Output next_;
  bool begun_ = false, ended_ = false, gone_ = false, ending_ = false, returned_ = false,
       taken_last_ = false;
};

}  // namespace veery::serve
