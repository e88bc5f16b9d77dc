// request_record.h: one request from its arrival to the end of its answer, for log and metrics.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace veery::serve {

/// Filled by whoever knows: the HTTP server, the service, the endpoint.
struct RequestRecord {
  // Of the HTTP server.
  std::string id;      ///< X-Request-Id
  std::string client;  ///< its address, without a port
  std::string method, path;
  double begun = 0;    ///< seconds_now() when it was read
  int status = 0;      ///< what the client was told; 499: it left before the answer was over
  int64_t bytes = 0;   ///< of the answer's body that were sent
  double seconds = 0;  ///< until the answer was over

  // Of the service.
  std::string_view route;  ///< its template ("/v1/models/*"); empty: no endpoint is called so
  std::string key;         ///< name of the API key; empty: there is none
  std::string user;        ///< who shares the models with others: the key or the address
  double weight = 1;       ///< of the user's share
  int32_t priority = 0;
  std::string error;  ///< why it failed, with paths: for the log only

  // Of the endpoint.
  std::string model;  ///< as the server knows it, or what the request asked for
  int64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
  double first_token = -1;   ///< seconds until it; less than 0: there is none
  std::string finish;        ///< why the answer ended; of several, the last
  bool keeps_texts = false;  ///< whether request_text and answer_text are wanted
  std::string request_text, answer_text;
};

/// `given` if it can be an id: 1 to 200 visible ASCII characters without quotes and backslashes.
/// Another one otherwise.
std::string request_id(std::string_view given);

/// `prefix` and 24 random letters and digits.
std::string random_id(const std::string& prefix);

}  // namespace veery::serve
