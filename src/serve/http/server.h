// server.h: an HTTP/1.1 server: an event loop for the connections, worker threads for the requests.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/message.h"
#include "serve/http/tls_files.h"

namespace veery::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;    ///< 0: any free port
  int32_t workers = 256;   ///< requests that are answered at a time; others wait
  int32_t waiting = 4096;  ///< requests that may wait for a worker; others get status 503
  int32_t connections = 8192;
  size_t body_bytes = size_t{32} << 20;
  size_t header_bytes = size_t{64} << 10;
  double idle_seconds = 75;   ///< timeout between two requests of a connection
  double read_seconds = 30;   ///< timeout for the header of a request, and again for its body
  double write_seconds = 60;  ///< timeout for a client that does not read
  TlsFiles tls;               ///< for HTTPS
  /// Called for an error of this program that ended a connection without an answer.
  std::function<void(const std::string& what)> warn;
  /// Called by any thread at the end of each request, also of one that no handler saw. Must not
  /// throw.
  std::function<void(const RequestRecord&)> finished;
};

/// Throws kInput unless `host` is an address or "localhost".
void check_host(const std::string& host);

/// Not thread-safe, except stop().
class HttpServer {
 public:
  /// Binds the port. Throws as check_host() and TlsContext() do, and kIo naming host and port if it
  /// cannot be bound.
  HttpServer(const HttpOptions& options, Handler handler);
  ~HttpServer();

  uint16_t port() const;
  /// Serves until stop(). Running answers then have `grace` seconds before they are aborted.
  void run(double grace);
  /// Accepts no new connections and closes idle ones. May be called by any thread.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace veery::serve
