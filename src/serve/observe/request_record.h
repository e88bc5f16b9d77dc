// request_record.h: what is known of one request, for the log and the metrics.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace veery::serve {

/// A text that is kept for the log up to a length. Longer texts are cut, not copied whole.
class LoggedText {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;

  LoggedText& operator=(std::string_view text) {
    text_.clear();
    bytes_ = 0;
    return *this += text;
  }
  LoggedText& operator+=(std::string_view text) {
    text_ += text.substr(0, kMostBytes - text_.size());
    bytes_ += text.size();
    return *this;
  }
  const std::string& text() const { return text_; }  ///< kMostBytes at most
  size_t bytes() const { return bytes_; }            ///< of the whole text

 private:
  std::string text_;
  size_t bytes_ = 0;
};

/// Filled in by the HTTP server, the service and the endpoint, each as far as it knows.
struct RequestRecord {
  // By the HTTP server.
  std::string id;      ///< X-Request-Id
  std::string client;  ///< address without port
  std::string method, path;
  double begun = 0;    ///< seconds_now() when the request was read
  int status = 0;      ///< status of the answer; 499: the client left before its end
  int64_t bytes = 0;   ///< bytes of the answer's body that were sent
  double seconds = 0;  ///< until the end of the answer

  // By the service.
  std::string_view route;  ///< template of the endpoint ("/v1/models/*"); empty: no endpoint
  std::string key;         ///< name of the API key; empty: none
  std::string user;        ///< for fair sharing: the key or the address
  double weight = 1;       ///< of the user's share
  int32_t priority = 0;
  std::string error;  ///< why it failed, with paths: for the log only

  // By the endpoint.
  std::string model;  ///< id of the model, or the name in the request
  int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
  double first_token = -1;   ///< seconds to the first token; negative: none
  std::string finish;        ///< why the answer ended; of several answers, the last
  bool keeps_texts = false;  ///< whether to fill in request_text and answer_text
  LoggedText request_text, answer_text;
};

/// Returns `given` if it is a valid id: 1 to 200 visible ASCII characters without quotes and
/// backslashes. Returns a random id otherwise.
std::string request_id(std::string_view given);

/// Returns `prefix` followed by 24 random letters and digits.
std::string random_id(const std::string& prefix);

}  // namespace veery::serve
