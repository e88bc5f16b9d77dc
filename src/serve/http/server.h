// server.h: HTTP/1.1 on one port: connections wait on an event loop, requests are answered by
// threads.
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
  uint16_t port = 8080;    ///< 0: any free one
  int32_t workers = 256;   ///< requests that are answered at a time; others wait
  int32_t waiting = 4096;  ///< requests that wait for a worker; others get 503
  int32_t connections = 8192;
  size_t body_bytes = size_t{32} << 20;
  size_t header_bytes = size_t{64} << 10;
  double idle_seconds = 75;   ///< between two requests of a connection
  double read_seconds = 30;   ///< from the first byte of a request to its last header, and its body
  double write_seconds = 60;  ///< that a client may leave a piece unread
  TlsFiles tls;               ///< HTTPS where they are given
  /// Told of what no answer could tell: an error of this program that ended a connection.
  std::function<void(const std::string& what)> warn;
  /// Told of each request that is over, one that no handler saw too; by any thread. Throws nothing.
  std::function<void(const RequestRecord&)> finished;
};

/// Throws kInput unless `host` is an address or "localhost".
void check_host(const std::string& host);

/// Not thread-safe but for stop().
class HttpServer {
 public:
  /// Binds the port. Throws as check_host(), kIo naming both where the port cannot
  /// be had, and as TlsContext().
  HttpServer(const HttpOptions& options, Handler handler);
  ~HttpServer();

  uint16_t port() const;
  /// Serves until stop(); then what runs has `grace` seconds to end, and is cut off.
  void run(double grace);
  /// No new connections; those that wait for a request are closed. Can be called by a signal
  /// handler's thread.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace veery::serve
