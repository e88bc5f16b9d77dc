#include "serve/batch.h"

#include <fmt/format.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/api/api_error.h"
#include "serve/api/prompt.h"
#include "serve/http/kept_reply.h"

namespace veery::serve {
namespace {

constexpr int64_t kAhead = 4;  // finished lines per worker that may wait for an earlier line

struct Line {
  Json custom_id = nullptr;
  HttpRequest request;
};

// Throws ApiError, and kFormat if the line is not JSON.
Line read_line(std::string_view text, int64_t number, const Json& defaults) {
  const std::string where = fmt::format("request {}", number);
  Json json = parse_json(text, where);
  Line line;
  Json body;
  std::string url = "/v1/chat/completions";
  if (json.is_string()) {
    body = {{"messages", Json::array({{{"role", "user"}, {"content", json}}})}};
  } else if (json.is_object()) {
    if (const auto id = json.find("custom_id"); id != json.end()) line.custom_id = *id;
    const auto text_of = [&](const char* key, const std::string& absent) {
      const auto found = json.find(key);
      if (found == json.end()) return absent;
      if (!found->is_string())
        throw ApiError(400, fmt::format("{}: {} is a JSON {}, expected a string", where, key,
                                        found->type_name()));
      return found->get<std::string>();
    };
    if (const std::string method = text_of("method", "POST"); method != "POST")
      throw ApiError(400,
                     fmt::format("{}: method is '{}', expected POST", where, method.substr(0, 40)));
    url = text_of("url", url);
    const auto found = json.find("body");
    if (found == json.end() || !found->is_object())
      throw ApiError(400, fmt::format("{}: body is not an object", where));
    body = *found;
  } else {
    throw ApiError(400, fmt::format("{}: is a JSON {}, expected an object or a string", where,
                                    json.type_name()));
  }
  for (const auto& [key, value] : defaults.items())
    if (body.find(key) == body.end()) body[key] = value;
  if (const auto stream = body.find("stream"); stream != body.end() && *stream != Json(false))
    throw ApiError(400, fmt::format("{}: stream is true, expected false in a batch", where));
  line.request = {.method = "POST", .headers = {{"content-type", kJson}}, .body = dump_json(body)};
  set_target(line.request, url);
  return line;
}

/// Answers the lines of one batch by several threads.
class Batch {
 public:
  Batch(Service& service, std::span<const std::string_view> lines, int64_t first,
        const BatchOptions& options, const std::function<void(std::string_view)>& take)
      : service_(service), lines_(lines), first_(first), options_(options), take_(take) {}

  BatchCounts run() {
    std::vector<std::thread> workers;
    try {
      for (int32_t i = 0; i < options_.workers; ++i) workers.emplace_back([this] { work(); });
    } catch (...) {  // the system has no more threads, or memory is short
      fail(std::current_exception());
    }
    for (std::thread& worker : workers) worker.join();
    if (error_) std::rethrow_exception(error_);
    return counts_;
  }

 private:
  void work() {
    for (size_t index = 0; next(index);) {
      KeptReply reply;
      try {
        {
          const std::lock_guard lock(mutex_);
          replies_[index] = &reply;
          if (error_) reply.leave();  // fail() came between next() and here
        }
        finish(index, answer(index, reply));
      } catch (...) {  // memory is short
        fail(std::current_exception(), index);
      }
    }
  }

  // Ends the batch: no line begins, and running requests are cancelled. `index`: of the line whose
  // reply is gone.
  void fail(const std::exception_ptr& error, size_t index = SIZE_MAX) {
    const std::lock_guard lock(mutex_);
    replies_.erase(index);
    if (!error_) error_ = error;
    for (const auto& [other, reply] : replies_) reply->leave();
    room_.notify_all();
  }

  // Sets the next line to answer. Waits while too many later lines are finished already. Returns
  // false if there is none.
  bool next(size_t& index) {
    std::unique_lock lock(mutex_);
    const auto ahead = static_cast<size_t>(kAhead * options_.workers);
    room_.wait(lock, [&] { return error_ || begun_ == lines_.size() || begun_ < taken_ + ahead; });
    if (error_ || begun_ == lines_.size()) return false;
    index = begun_++;
    return true;
  }

  std::string answer(size_t index, KeptReply& reply) {
    Json line{{"id", random_id("batch_req_")}, {"custom_id", nullptr}};
    bool failed = true;
    try {
      const int64_t number = first_ + static_cast<int64_t>(index);
      Line request = read_line(lines_[index], number, options_.defaults);
      line["custom_id"] = request.custom_id;
      const std::string id = random_id("req_");
      reply.record().id = id;
      service_.handle(request.request, reply);
      failed = reply.status() >= 400;
      line["response"] = {{"status_code", reply.status()},
                          {"request_id", id},
                          {"body", parse_json(reply.body(), "an answer")}};
      line["error"] = nullptr;
    } catch (const std::runtime_error& error) {  // Error, ApiError
      if (const std::string id = custom_id_of(lines_[index]); !id.empty()) line["custom_id"] = id;
      line["response"] = nullptr;
      line["error"] = {{"code", "invalid_request"}, {"message", error.what()}};
    }
    const std::lock_guard lock(mutex_);
    ++counts_.requests;
    counts_.errors += failed ? 1 : 0;
    return dump_json(line);
  }

  // Passes on all finished lines that do not wait for an earlier one.
  void finish(size_t index, std::string line) {
    const std::lock_guard lock(mutex_);
    replies_.erase(index);
    done_[index] = std::move(line);
    try {
      for (; !error_ && !done_.empty() && done_.begin()->first == taken_; ++taken_) {
        take_(done_.begin()->second);
        done_.erase(done_.begin());
      }
    } catch (...) {
      error_ = std::current_exception();
      for (const auto& [other, reply] : replies_) reply->leave();
    }
    room_.notify_all();
  }

  Service& service_;
  std::span<const std::string_view> lines_;
  int64_t first_;
  const BatchOptions& options_;
  const std::function<void(std::string_view)>& take_;

  std::mutex mutex_;
  std::condition_variable room_;
  size_t begun_ = 0, taken_ = 0;
  std::map<size_t, KeptReply*> replies_;
  std::map<size_t, std::string> done_;
  BatchCounts counts_;
  std::exception_ptr error_;
};

}  // namespace

BatchCounts answer_batch(Service& service, std::span<const std::string_view> lines, int64_t first,
                         const BatchOptions& options,
                         const std::function<void(std::string_view)>& take) {
  return Batch(service, lines, first, options, take).run();
}

std::string custom_id_of(std::string_view line) {
  try {
    const Json json = parse_json(line, "a line");
    if (!json.is_object()) return {};
    const auto id = json.find("custom_id");
    return id != json.end() && id->is_string() ? id->get<std::string>() : std::string();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    return {};
  }
}

}  // namespace veery::serve
