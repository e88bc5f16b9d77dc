// tls.h: connections with or without TLS.
#pragma once
#include <memory>

#ifdef VEERY_TLS
#include <boost/asio/ssl.hpp>
#endif
#include <boost/asio/awaitable.hpp>
#include <boost/beast/core.hpp>

#include "serve/http/tls_files.h"

namespace veery::serve {

/// A certificate and its key. The constructor throws kNotFound, kIo or kInput naming the file (not
/// PEM, an encrypted key, the key of another certificate), and kUnsupported if veery was built
/// without OpenSSL.
class TlsContext {
 public:
  explicit TlsContext(const TlsFiles& files);
  ~TlsContext();
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// A connection as a stream of Boost.Beast. Not thread-safe.
class ConnectionStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  /// `tls`: must outlive it; null: no TLS.
  ConnectionStream(boost::asio::ip::tcp::socket socket, TlsContext* tls);
  ~ConnectionStream();

  executor_type get_executor() { return tcp_.get_executor(); }
  boost::beast::tcp_stream& tcp() { return tcp_; }
  boost::asio::ip::tcp::socket& socket() { return tcp_.socket(); }
  void expires_after(std::chrono::steady_clock::duration time) { tcp_.expires_after(time); }
  bool secure() const;
  /// Performs the TLS handshake; does nothing without TLS.
  boost::asio::awaitable<boost::system::error_code> open();
  /// Sends the end of the stream.
  boost::asio::awaitable<void> close();

#ifdef VEERY_TLS
  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return tcp_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return tcp_.async_write_some(buffers, std::forward<Token>(token));
  }
#else
  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return tcp_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return tcp_.async_write_some(buffers, std::forward<Token>(token));
  }
#endif

 private:
  boost::beast::tcp_stream tcp_;
#ifdef VEERY_TLS
  std::unique_ptr<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
#endif
};

}  // namespace veery::serve
