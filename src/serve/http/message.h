// message.h: requests and replies of HTTP, independent of the server.
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

  /// Returns the value of a header, whose name is in lower case; empty if there is none.
  std::string_view header(std::string_view name) const {
    const auto found = headers.find(std::string(name));
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
};

struct HttpHeader {
  std::string name, value;
};

/// The answer to one request. Calls may block while the client reads slowly, up to the server's
/// write timeout; none throws because the client is gone. One thread uses it; another one calls the
/// function of on_gone().
class Reply {
 public:
  virtual ~Reply() = default;
  /// Adds a header. Must be called before the answer begins.
  virtual void add_header(std::string name, std::string value) = 0;
  /// Sends a whole answer.
  virtual void send(int status, std::string_view type, std::string body) = 0;
  /// Begins an answer in pieces, up to end().
  virtual void begin(int status, std::string_view type) = 0;
  /// Sends a piece. Returns false if the client is gone.
  virtual bool write(std::string piece) = 0;
  virtual void end() = 0;
  virtual bool begun() const = 0;
  virtual bool gone() const = 0;
  /// Whether the server stops, so that the answer should end with an error.
  virtual bool ending() const = 0;
  /// Adds a function that is called once when the client disconnects before the end of the answer
  /// or the server stops; at once if this has happened already.
  virtual void on_gone(std::function<void()> call) = 0;
  /// Returns the record for log and limits; for the thread that uses the reply.
  virtual RequestRecord& record() = 0;
};

/// Answers a request; called by several threads. An exception closes the connection.
using Handler = std::function<void(const HttpRequest&, Reply&)>;

/// Decodes percent escapes, and with `plus` also "+" as a space. Invalid escapes stay unchanged.
std::string percent_decoded(std::string_view text, bool plus = false);

/// Splits a target "/path?a=1&b=2" into path and query of `request`. The host of a target
/// "http://host/path" replaces the Host header (RFC 9112, 3.2.2).
void set_target(HttpRequest& request, std::string_view target);

}  // namespace veery::serve
