#include "serve/http/server.h"

#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <new>
#include <optional>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "serve/http/exchange.h"
#include "serve/http/tls.h"
#include "serve/http/workers.h"

namespace veery::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

asio::ip::address address_of(const std::string& host) {
  error_code code;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, code);
  if (code)
    throw Error(ErrorKind::kInput, "'{}' is no address, expected one such as 127.0.0.1",
                printable(host));
  return address;
}

constexpr auto kNoThrow = asio::use_awaitable;
constexpr double kFarewellSeconds = 1;
constexpr std::chrono::milliseconds kWatchPause{200};

auto seconds(double count) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(count));
}

/// The reply to a request that is malformed or not supported.
struct Refusal {
  http::status status;
  std::string what;
};

// Returns the refusal of a well-formed header that this server must not accept (RFC 9110, 9112).
std::optional<Refusal> refusal_of(const http::request<http::string_body>& head) {
  const auto count = [&](http::field name) {
    const auto [begin, end] = head.equal_range(name);
    return std::distance(begin, end);
  };
  if (head.version() >= 11 && count(http::field::host) != 1)
    return Refusal{
        http::status::bad_request,
        fmt::format("the request has {} Host headers, expected one", count(http::field::host))};
  if (count(http::field::content_length) > 1)
    return Refusal{http::status::bad_request, "the request has several Content-Length headers"};
  if (const auto codings = count(http::field::transfer_encoding); codings > 0) {
    if (head.version() < 11 || count(http::field::content_length) > 0)
      return Refusal{http::status::bad_request,
                     "Transfer-Encoding in HTTP/1.0 or together with Content-Length"};
    if (codings > 1 || !beast::iequals(head[http::field::transfer_encoding], "chunked"))
      return Refusal{http::status::not_implemented, "unknown transfer coding, expected chunked"};
  }
  const auto expected = head[http::field::expect];
  if (!expected.empty() && !beast::iequals(expected, "100-continue"))
    return Refusal{http::status::expectation_failed, "unknown expectation, expected 100-continue"};
  return std::nullopt;
}

// Returns an empty text if the client has disconnected already.
std::string address_of(const tcp::socket& socket) {
  error_code code;
  const asio::ip::address address = socket.remote_endpoint(code).address();
  if (code) return {};
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

Refusal refusal_of(error_code why, size_t body_bytes) {
  if (why == http::error::body_limit)
    return {http::status::payload_too_large,
            fmt::format("the body is larger than {} bytes", body_bytes)};
  if (why == http::error::header_limit)
    return {http::status::request_header_fields_too_large,
            fmt::format("the request is not HTTP: {}", why.message())};
  if (why == http::error::bad_version)
    return {http::status::http_version_not_supported, "the request is not HTTP/1.0 or HTTP/1.1"};
  return {http::status::bad_request, fmt::format("the request is not HTTP: {}", why.message())};
}

}  // namespace

class HttpServer::Impl : public std::enable_shared_from_this<HttpServer::Impl> {
 public:
  Impl(const HttpOptions& options, Handler handler)
      : options_(options),
        handler_(std::move(handler)),
        acceptor_(context_),
        workers_(options.workers, options.waiting) {
    if (!options.tls.certificate.empty()) tls_.emplace(options.tls);
    bind();
    port_ = acceptor_.local_endpoint().port();
  }

  uint16_t port() const { return port_; }

  void run(double grace) {
    grace_ = grace;
    asio::co_spawn(context_, accept(), asio::detached);
    // Runs until stop() and the end of the last connection. If memory is short for one operation,
    // that operation is lost and the others continue.
    for (bool over = false; !over;) {
      try {
        context_.run();
        over = true;
      } catch (const std::exception& error) {
        warn(error);
      }
    }
    workers_.join();
  }
  void stop() {
    asio::post(context_, [this] {
      stopping_ = true;
      error_code ignored;
      acceptor_.close(ignored);
      for (Connection* connection : all_)
        if (!connection->busy)
          connection->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
      deadline_.emplace(context_);
      after(grace_, [this] { end_answers(); });
      if (all_.empty()) deadline_.reset();
    });
  }

 private:
  struct Connection {
    Connection(tcp::socket socket, TlsContext* tls)
        : stream(std::move(socket), tls), client(address_of(stream.socket())) {}
    ConnectionStream stream;
    std::string client;  // address of the other side
    beast::flat_buffer buffer;
    bool busy = false;                 // a request is being read or answered
    std::weak_ptr<Exchange> exchange;  // of the current answer
  };

  // Calls `next` after `count` seconds if there are still connections then.
  void after(double count, std::function<void()> next) {
    deadline_->expires_after(seconds(count));
    deadline_->async_wait([this, next = std::move(next)](error_code code) {
      if (!code && deadline_) next();
    });
  }
  // Makes handlers end their answers with an error, which clients have a moment to read.
  void end_answers() {
    for (Connection* connection : all_)
      if (const auto exchange = connection->exchange.lock()) exchange->set_ending();
    after(kFarewellSeconds, [this] {
      error_code ignored;
      for (Connection* connection : all_)
        connection->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    });
  }

  void bind() {
    error_code code;
    const tcp::endpoint endpoint(address_of(options_.host), options_.port);
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));
    acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(asio::socket_base::max_listen_connections, code);
    if (code)
      throw Error(ErrorKind::kIo, "cannot listen on {}:{}: {}", options_.host, options_.port,
                  code.message());
  }

  asio::awaitable<void> accept() {
    const auto self = shared_from_this();
    while (!stopping_) {
      error_code code;
      tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(kNoThrow, code));
      if (stopping_ || code == asio::error::operation_aborted) co_return;
      if (code) {  // out of file descriptors: wait for a free one
        asio::steady_timer timer(context_, std::chrono::milliseconds(50));
        co_await timer.async_wait(asio::redirect_error(kNoThrow, code));
        continue;
      }
      if (count_ >= options_.connections) continue;  // closes the socket
      try {
        begin(std::move(socket));
      } catch (const std::exception& error) {  // memory is short: closes the socket
        warn(error);
      }
    }
  }
  void begin(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(std::move(socket), tls_ ? &*tls_ : nullptr);
    asio::co_spawn(context_, serve(std::move(connection)), asio::detached);
  }

  // Registers a connection for its lifetime, since a coroutine may be destroyed at any point.
  class Known {
   public:
    Known(Impl& impl, Connection& connection) : impl_(impl), connection_(&connection) {
      impl_.all_.insert(connection_);
      ++impl_.count_;
    }
    Known(const Known&) = delete;
    Known& operator=(const Known&) = delete;
    ~Known() {
      impl_.all_.erase(connection_);
      --impl_.count_;
      if (impl_.stopping_ && impl_.all_.empty() && impl_.deadline_) impl_.deadline_.reset();
    }

   private:
    Impl& impl_;
    Connection* connection_;
  };

  asio::awaitable<void> serve(std::shared_ptr<Connection> connection) {
    const auto self = shared_from_this();
    const Known known(*this, *connection);
    try {
      connection->stream.expires_after(seconds(options_.read_seconds));
      if (!co_await connection->stream.open()) {
        while (!stopping_ && co_await serve_one(*connection)) {
        }
        connection->stream.expires_after(seconds(kFarewellSeconds));
        co_await connection->stream.close();
      }
    } catch (const boost::system::system_error&) {
      // The connection broke.
    } catch (const std::exception& error) {
      warn(error);  // only this connection ends
    }
    error_code ignored;
    connection->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    connection->stream.tcp().close();
  }

  // Serves one request. Returns false if the connection must be closed.
  asio::awaitable<bool> serve_one(Connection& connection) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(static_cast<uint32_t>(options_.header_bytes));
    parser.body_limit(options_.body_bytes);
    error_code code;
    if (connection.buffer.size() == 0) {
      connection.stream.expires_after(seconds(options_.idle_seconds));
      const size_t read = co_await connection.stream.async_read_some(
          connection.buffer.prepare(4096), asio::redirect_error(kNoThrow, code));
      if (code) co_return false;
      connection.buffer.commit(read);
    }
    connection.busy = true;
    connection.stream.expires_after(seconds(options_.read_seconds));
    co_await http::async_read_header(connection.stream, connection.buffer, parser,
                                     asio::redirect_error(kNoThrow, code));
    if (!code)
      if (const auto refusal = refusal_of(parser.get()))
        co_return co_await refuse(connection, *refusal, record_of(connection, parser.get()));
    if (!code && parser.get().version() >= 11 && !parser.get()[http::field::expect].empty()) {
      http::response<http::empty_body> go_on(http::status::continue_, 11);
      co_await http::async_write(connection.stream, go_on, asio::redirect_error(kNoThrow, code));
    }
    if (!code) {
      connection.stream.expires_after(seconds(options_.read_seconds));
      co_await http::async_read(connection.stream, connection.buffer, parser,
                                asio::redirect_error(kNoThrow, code));
    }
    if (code)
      co_return co_await refuse_unreadable(connection, code, record_of(connection, parser.get()));
    const bool more = co_await answer(connection, parser.release());
    connection.busy = false;
    co_return more;
  }

  void warn(const std::exception& error) const noexcept {
    try {
      if (options_.warn) options_.warn(error.what());
    } catch (const std::exception&) {
      // Memory is short for the warning, too.
    }
  }

  // Answers a request that cannot be parsed, unless the client has disconnected.
  asio::awaitable<bool> refuse_unreadable(Connection& connection, error_code why,
                                          RequestRecord record) {
    const bool spoken = why == http::error::body_limit || why == http::error::header_limit ||
                        why.category() == http::make_error_code(http::error::bad_method).category();
    if (!spoken || why == http::error::end_of_stream || why == http::error::partial_message)
      co_return false;
    co_return co_await refuse(connection, refusal_of(why, options_.body_bytes), std::move(record));
  }

  // Returns false: the connection must be closed, as the beginning of the next request is unknown.
  asio::awaitable<bool> refuse(Connection& connection, Refusal refusal, RequestRecord record) {
    error_code code;
    http::response<http::string_body> response(refusal.status, 11);
    response.set(http::field::content_type, "application/json");
    response.set("X-Request-Id", record.id);
    response.keep_alive(false);
    response.body() = fmt::format(
        R"({{"error":{{"message":"{}","type":"invalid_request_error","param":null,"code":null}}}})",
        refusal.what);
    response.prepare_payload();
    connection.stream.expires_after(seconds(options_.write_seconds));
    co_await http::async_write(connection.stream, response, asio::redirect_error(kNoThrow, code));
    record.status = static_cast<int>(refusal.status);
    record.bytes = static_cast<int64_t>(response.body().size());
    record.seconds = seconds_now() - record.begun;
    if (options_.finished) options_.finished(record);
    // Unread bytes of the client would make the system reset the connection before the answer is
    // read, so read some of them.
    connection.stream.socket().shutdown(tcp::socket::shutdown_send, code);
    connection.stream.expires_after(seconds(2));
    char rest[8192];
    for (size_t total = 0; !code && total < (size_t{1} << 22);)
      total += co_await connection.stream.async_read_some(asio::buffer(rest),
                                                          asio::redirect_error(kNoThrow, code));
    co_return false;
  }

  // `message`: its header was read, at least in part.
  static RequestRecord record_of(const Connection& connection,
                                 const http::request<http::string_body>& message) {
    HttpRequest target;
    set_target(target, {message.target().data(), message.target().size()});
    const auto id = message["X-Request-Id"];
    RequestRecord record;
    record.id = request_id({id.data(), id.size()});
    record.client = connection.client;
    record.method = std::string(message.method_string());
    record.path = std::move(target.path);
    record.begun = seconds_now();
    return record;
  }

  static HttpRequest convert(http::request<http::string_body> message) {
    HttpRequest request;
    request.method = std::string(message.method_string());
    for (const auto& field : message) {
      std::string name(field.name_string());
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      std::string& value = request.headers[name];
      value += (value.empty() ? "" : ", ") + std::string(field.value());
    }
    set_target(request, {message.target().data(), message.target().size()});
    request.body = std::move(message.body());
    return request;
  }

  struct Waker {
    explicit Waker(asio::io_context& context) : timer(context) {
      timer.expires_at(asio::steady_timer::time_point::max());
    }
    asio::steady_timer timer;
    bool over = false;
  };

  asio::awaitable<bool> answer(Connection& connection, http::request<http::string_body> message) {
    const auto self = shared_from_this();
    const bool keep = message.keep_alive();
    const unsigned version = message.version();
    const bool head = message.method() == http::verb::head;
    auto waker = std::make_shared<Waker>(context_);
    const auto exchange = std::make_shared<Exchange>(
        record_of(connection, message), [self, waker] { self->wake(waker); }, options_.finished);
    connection.exchange = exchange;
    const auto request = std::make_shared<HttpRequest>(convert(std::move(message)));
    const bool posted = workers_.post([self, request, exchange] {
      try {
        self->handler_(*request, *exchange);
      } catch (const std::exception& error) {
        self->warn(error);  // the incomplete answer closes the connection
      }
      exchange->returned();  // does not throw, since wake() does not
    });
    if (!posted) {
      exchange->add_header("Retry-After", "1");
      exchange->send(503, "application/json",
                     R"({"error":{"message":"too many requests are waiting","type":"server_error",)"
                     R"("param":null,"code":null}})");
      exchange->returned();
    }
    asio::co_spawn(context_, watch(connection, exchange, waker), asio::detached);
    const Written written = co_await write_all(connection, *exchange, *waker, version, keep, head);
    waker->over = true;
    exchange->set_sent(written.whole);
    if (!written.again) exchange->set_gone();
    // The watcher refers to the connection.
    error_code ignored;
    connection.stream.socket().cancel(ignored);
    co_await asio::post(context_, kNoThrow);
    co_return written.again&& keep && exchange->complete() && !stopping_;
  }

  // Resumes the coroutine that writes an answer. The event loop allocates memory for that. If
  // memory is short, tries again, because other requests free some soon.
  void wake(const std::shared_ptr<Waker>& waker) noexcept {
    constexpr int kTries = 500;
    for (int i = 0; i < kTries; ++i) try {
        asio::post(context_, [waker] { waker->timer.cancel(); });
        return;
      } catch (const std::bad_alloc&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
  }

  // Detects that the client disconnects during its answer.
  asio::awaitable<void> watch(Connection& connection, std::shared_ptr<Exchange> exchange,
                              std::shared_ptr<Waker> waker) {
    error_code code;
    co_await connection.stream.socket().async_wait(tcp::socket::wait_read,
                                                   asio::redirect_error(kNoThrow, code));
    if (waker->over || code) co_return;
    // With TLS, bytes of a closing message arrive before the end of the stream.
    asio::steady_timer timer(context_);
    while (!has_left(connection)) {
      if (!connection.stream.secure()) co_return;
      timer.expires_after(kWatchPause);
      co_await timer.async_wait(asio::redirect_error(kNoThrow, code));
      if (waker->over || code) co_return;
    }
    exchange->set_gone();
    waker->timer.cancel();
  }

  static bool has_left(Connection& connection) {
    pollfd state{connection.stream.socket().native_handle(), POLLRDHUP, 0};
    return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }

  struct Written {
    bool whole = false;  // all of the answer was sent
    bool again = false;  // the connection can serve another request
  };

  asio::awaitable<Written> write_all(Connection& connection, Exchange& exchange, Waker& waker,
                                     unsigned version, bool keep, bool head) {
    bool chunked = false;
    int status = 0;
    while (true) {
      Exchange::Output output;
      if (!exchange.take(output)) {
        if (exchange.gone()) co_return Written{};
        waker.timer.expires_at(asio::steady_timer::time_point::max());
        error_code ignored;
        co_await waker.timer.async_wait(asio::redirect_error(kNoThrow, ignored));
        continue;
      }
      error_code code;
      connection.stream.expires_after(seconds(options_.write_seconds));
      if (output.whole) {
        auto response = head_of<http::string_body>(output, exchange.id(), version, keep);
        // RFC 9110, 8.6: no length with 204, none that differs from the whole answer's with 304.
        if (output.status != 204 && output.status != 304)
          response.content_length(output.body.size());
        const size_t bytes = head ? 0 : output.body.size();
        if (!head) response.body() = std::move(output.body);
        http::response_serializer<http::string_body> serializer(response);
        if (head)
          co_await http::async_write_header(connection.stream, serializer,
                                            asio::redirect_error(kNoThrow, code));
        else
          co_await http::async_write(connection.stream, serializer,
                                     asio::redirect_error(kNoThrow, code));
        exchange.count_sent(output.status, code ? 0 : bytes);
        co_return Written{!code, !code};
      }
      if (output.head) {
        status = output.status;
        chunked = version >= 11;
        auto response = head_of<http::empty_body>(output, exchange.id(), version, keep && chunked);
        response.chunked(chunked);
        http::response_serializer<http::empty_body> serializer(response);
        co_await http::async_write_header(connection.stream, serializer,
                                          asio::redirect_error(kNoThrow, code));
      }
      if (!code && !output.body.empty() && !head) {
        if (chunked)
          co_await asio::async_write(connection.stream, http::make_chunk(asio::buffer(output.body)),
                                     asio::redirect_error(kNoThrow, code));
        else
          co_await asio::async_write(connection.stream, asio::buffer(output.body),
                                     asio::redirect_error(kNoThrow, code));
      }
      // An aborted answer must not look like a complete one.
      if (!code && output.last && exchange.complete() && chunked && !head)
        co_await asio::async_write(connection.stream, http::make_chunk_last(),
                                   asio::redirect_error(kNoThrow, code));
      if (code) co_return Written{};
      exchange.count_sent(status, head ? 0 : output.body.size());
      if (output.last) co_return Written{exchange.complete(), exchange.complete() && chunked};
    }
  }

  template <typename Body>
  static http::response<Body> head_of(const Exchange::Output& output, const std::string& id,
                                      unsigned version, bool keep) {
    http::response<Body> response(static_cast<http::status>(output.status), version);
    response.set(http::field::server, "veery");
    response.set("X-Request-Id", id);
    if (!output.type.empty()) response.set(http::field::content_type, output.type);
    for (const HttpHeader& header : output.headers) response.set(header.name, header.value);
    response.keep_alive(keep);
    return response;
  }

  HttpOptions options_;
  Handler handler_;
  asio::io_context context_{1};
  std::optional<TlsContext> tls_;
  tcp::acceptor acceptor_;
  uint16_t port_ = 0;  // copied, because another thread closes the acceptor
  std::set<Connection*> all_;
  std::atomic<int64_t> count_{0};
  std::optional<asio::steady_timer> deadline_;
  bool stopping_ = false;
  double grace_ = 5;
  Workers workers_;
};

void check_host(const std::string& host) { address_of(host); }

HttpServer::HttpServer(const HttpOptions& options, Handler handler)
    : impl_(std::make_shared<Impl>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->port(); }
void HttpServer::run(double grace) { impl_->run(grace); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace veery::serve
