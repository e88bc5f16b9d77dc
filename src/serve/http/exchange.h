// exchange.h: passes an answer from the handler's thread to the event loop that writes it.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"

namespace veery::serve {

/// The thread of the handler adds pieces and the event loop takes them. Safe to use by these two.
class Exchange final : public Reply {
 public:
  /// The next piece for the loop to write.
  struct Output {
    bool head = false;  ///< status, type and headers come first
    int status = 0;
    std::string type;
    std::vector<HttpHeader> headers;
    bool whole = false;  ///< `body` is the whole answer
    std::string body;
    bool last = false;  ///< the last piece
  };

  /// Called by either thread when handler and loop are done with the request.
  using Finished = std::function<void(const RequestRecord&)>;

  /// `wake`: wakes the loop; called from any thread. `finished`: may be empty, must not throw.
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

  /// Records that the handler has returned. An answer without an end is then aborted.
  void returned();

  // For the loop:
  /// Takes the next piece. Returns false if there is none yet.
  bool take(Output& output);
  /// Records that the client has disconnected.
  void set_gone();
  /// Records that the server stops. The handler should end its answer soon, which is still sent.
  void set_ending();
  /// Whether the handler has ended the answer; else the connection must be closed.
  bool complete() const;
  const std::string& id() const { return record_.id; }
  /// Records the status and more bytes of the body that were sent.
  void count_sent(int status, size_t bytes);
  /// Records that nothing more is sent. `whole`: all of the answer was sent.
  void set_sent(bool whole);

 private:
  static constexpr size_t kMostWaiting = size_t{256} << 10;  // bytes before write() waits

  // The loop writes status, bytes and seconds; the handler's thread writes the other fields.
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
