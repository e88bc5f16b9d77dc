// message.h: a request as a handler gets it, and how it answers.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "serve/observe/request_record.h"

namespace veery::serve {

struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< without the query, percent signs decoded
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;

  /// Empty: there is none.
  std::string_view header(std::string_view name) const {
    const auto found = headers.find(std::string(name));
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
};

struct HttpHeader {
  std::string name, value;
};

/// The answer to one request. Its calls may wait for a slow reader, no longer than the server's
/// time for writing; none of them throws because the client is gone. One thread uses it, but
/// on_gone's function is called by another.
class Reply {
 public:
  virtual ~Reply() = default;
  /// Headers that each answer of this request has; to be added before it begins.
  virtual void add_header(std::string name, std::string value) = 0;
  /// A whole answer.
  virtual void send(int status, std::string_view type, std::string body) = 0;
  /// An answer in pieces, which end() ends.
  virtual void begin(int status, std::string_view type) = 0;
  /// False: nobody reads any more.
  virtual bool write(std::string piece) = 0;
  virtual void end() = 0;
  virtual bool begun() const = 0;
  virtual bool gone() const = 0;
  /// Whether the server ends and has no more time for this answer: it should end with an error.
  virtual bool ending() const = 0;
  /// Called once when the client goes away before the answer is over, or the server ends; at once
  /// where that has happened. There may be several such calls.
  virtual void on_gone(std::function<void()> call) = 0;
  /// What log and limits want to know of this request; for the thread that uses the reply.
  virtual RequestRecord& record() = 0;
};

/// Answers a request; called by one of several threads. What it throws closes the connection.
using Handler = std::function<void(const HttpRequest&, Reply&)>;

/// "a b" of "a%20b", and with `plus` of "a+b". Broken escapes stay as they are.
std::string percent_decoded(std::string_view text, bool plus = false);

/// Splits a target "/path?a=1&b=2" into path and query of `request`. Of "http://host/path" the host
/// replaces the header of that name (RFC 9112, 3.2.2).
void set_target(HttpRequest& request, std::string_view target);

}  // namespace veery::serve
