#include "serve/api/event_stream.h"

#include <string>

#include "serve/api/context.h"

namespace veery::serve {

void EventStream::begin_events() {
  if (reply_.begun()) return;
  reply_.add_header("Cache-Control", "no-cache");
  reply_.add_header("X-Accel-Buffering", "no");
  reply_.begin(200, kEvents);
}

void EventStream::write(std::string text) {
  alive_ = alive_ && reply_.write(std::move(text));
  last_write_ = seconds_now();
}

void EventStream::event(std::string_view name, const Json& json) {
  begin_events();
  const std::string head = name.empty() ? std::string() : "event: " + std::string(name) + "\n";
  write(head + "data: " + dump_json(json) + "\n\n");
}

void EventStream::ping() {
  begin_events();
  write(": ping\n\n");
}

void EventStream::done() {
  begin_events();
  write("data: [DONE]\n\n");
}

void EventStream::line(const Json& json) {
  if (!reply_.begun()) reply_.begin(200, kLines);
  write(dump_json(json) + "\n");
}

}  // namespace veery::serve
