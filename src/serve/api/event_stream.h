// event_stream.h: replies that are sent in pieces, as server-sent events or as lines of JSON.
#pragma once
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "serve/http/message.h"

namespace veery::serve {

/// Sends JSON values in the order of the calls. The head of the reply is sent with the first of
/// them. Calls do nothing once the client is gone.
class EventStream {
 public:
  /// `reply` must outlive it.
  explicit EventStream(Reply& reply) : reply_(reply) {}
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// Sends a server-sent event: "data: {...}".
  void data(const Json& json) { event({}, json); }
  /// Sends a server-sent event with a name.
  void event(std::string_view name, const Json& json);
  /// Sends a comment, so that clients do not take the stream for dead.
  void ping();
  /// Sends "[DONE]", by which OpenAI's streams end.
  void done();
  /// Sends a line of JSON. A stream has either lines or events.
  void line(const Json& json);
  /// Ends the reply. Needs an earlier event or line.
  void end() {
    if (alive()) reply_.end();
  }
  /// Returns false if the client is gone.
  bool alive() const { return alive_ && !reply_.gone(); }
  /// Returns seconds_now() of the last write; before the first one, of the construction.
  double last_write() const { return last_write_; }

 private:
  void begin_events();
  void write(std::string text);

  Reply& reply_;
  bool alive_ = true;
  double last_write_ = seconds_now();
};

}  // namespace veery::serve
