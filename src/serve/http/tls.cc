#include "serve/http/tls.h"

#include <fmt/format.h>

#include <boost/asio.hpp>

#include "base/error.h"
#include "base/untrusted_file.h"

namespace veery::serve {

namespace asio = boost::asio;
using boost::system::error_code;

#ifdef VEERY_TLS

namespace ssl = boost::asio::ssl;

struct TlsContext::Impl {
  ssl::context context{ssl::context::tls_server};
};

TlsContext::TlsContext(const TlsFiles& files) : impl_(std::make_unique<Impl>()) {
  const std::string certificate = read_text(files.certificate, kConfigFile);
  const std::string key = read_text(files.key, kConfigFile);
  ssl::context& context = impl_->context;
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                      ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 |
                      ssl::context::single_dh_use);
  // By default OpenSSL would wait for a password on the terminal.
  context.set_password_callback([](size_t, ssl::context::password_purpose) { return ""; });
  error_code code;
  context.use_certificate_chain(asio::buffer(certificate), code);
  if (code)
    throw Error(ErrorKind::kInput, "{}: has no certificate, expected PEM: {}", files.certificate,
                code.message());
  context.use_private_key(asio::buffer(key), ssl::context::pem, code);
  if (code || SSL_CTX_check_private_key(context.native_handle()) != 1)
    throw Error(ErrorKind::kInput,
                "{}: is not the key of {}, expected a private key in PEM without a password{}",
                files.key, files.certificate, code ? ": " + code.message() : "");
}
TlsContext::~TlsContext() = default;

ConnectionStream::ConnectionStream(asio::ip::tcp::socket socket, TlsContext* tls)
    : tcp_(std::move(socket)) {
  if (tls != nullptr)
    tls_ = std::make_unique<ssl::stream<boost::beast::tcp_stream&>>(tcp_, tls->impl().context);
}
ConnectionStream::~ConnectionStream() = default;

bool ConnectionStream::secure() const { return tls_ != nullptr; }

asio::awaitable<error_code> ConnectionStream::open() {
  error_code code;
  if (tls_)
    co_await tls_->async_handshake(ssl::stream_base::server,
                                   asio::redirect_error(asio::use_awaitable, code));
  co_return code;
}

asio::awaitable<void> ConnectionStream::close() {
  error_code ignored;
  if (tls_) co_await tls_->async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
}

#else

struct TlsContext::Impl {};
TlsContext::TlsContext(const TlsFiles&) {
  throw Error(ErrorKind::kUnsupported, "TLS is not available: veery was built without OpenSSL");
}
TlsContext::~TlsContext() = default;
ConnectionStream::ConnectionStream(asio::ip::tcp::socket socket, TlsContext*)
    : tcp_(std::move(socket)) {}
ConnectionStream::~ConnectionStream() = default;
bool ConnectionStream::secure() const { return false; }
asio::awaitable<error_code> ConnectionStream::open() { co_return error_code(); }
asio::awaitable<void> ConnectionStream::close() { co_return; }

#endif

}  // namespace veery::serve
