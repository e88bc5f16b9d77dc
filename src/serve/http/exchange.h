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

  /// Told of a request when handler and loop are done with it, by one of their threads.
  using Finished = std::function<void(const RequestRecord&)>;

  /// `wake` tells the loop that there is something; it may be called from any thread. `finished`
  /// may be empty and throws nothing.
  Exchange(RequestRecord record, std::function<void()> wake, Finished finished)
      : record_(std::move(record)), wake_(std::move(wake)), finished_(std::move(finished)) {}
  ~Exchange() override;

  void add_header(std::string name, std::string value) override;
  void send(int status, std::string_view type, std::string body) override;
  void begin(int status, std::string_view type) override;
  bool write(std::string piece) override;
  void end() override;
  bool begun() const override;
  bool gone() const override;
  bool ending() const override;
  void on_gone(std::function<void()> call) override;
  RequestRecord& record() override { return record_; }

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
  const std::string& id() const { return record_.id; }
  /// So much of the body of an answer with this status was sent.
  void count_sent(int status, size_t bytes);
  /// Nothing more is sent. `whole`: all of the answer was.
  void set_sent(bool whole);

 private:
  static constexpr size_t kMostWaiting = size_t{256} << 10;  // bytes before write() waits

  // Its fields have one writer each: the handler's thread, or the loop (status, bytes, seconds).
  RequestRecord record_;
  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::function<void()> wake_;
  std::vector<std::function<void()>> on_gone_;
  Finished finished_;
  std::vector<HttpHeader> headers_;
  Output next_;
  bool begun_ = false, ended_ = false, gone_ = false, ending_ = false, returned_ = false,
       taken_last_ = false;
};

}  // namespace veery::serve
