// transfer.h: requests to a hub of models over HTTP and HTTPS, by libcurl.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace veery::cli {

/// What a request brought. Names of headers are in small letters.
struct Reply {
  long status = 0;
  std::map<std::string, std::string> headers;  ///< of the first reply, before redirects
  std::string body;                            ///< of failures its first bytes
};

/// Where a download goes, and what is called as bytes arrive.
struct Sink {
  int descriptor = -1;
  uint64_t have = 0;  ///< bytes that the file has: the hub is asked for those behind them
  uint64_t most = 0;  ///< of the whole file: what sends more is refused
  std::function<void(uint64_t bytes)> arrived;  ///< with what the file has then
};

/// Why a request brought no reply as a whole.
enum class Cut {
  kNone,
  kNetwork,  ///< no connection, or it broke: asking again may help
  kDisk,     ///< the file could not be written
  kTooMuch,  ///< more bytes than the sink takes
};
struct Transferred {
  Reply reply;
  Cut cut = Cut::kNone;
  std::string why;    ///< of a cut, for messages
  uint64_t have = 0;  ///< bytes that the file has
};

/// One connection, used for one request after the other. Certificates are checked; proxies are
/// those of the environment. The token goes to the host of the first request alone, and a request
/// that begins with HTTPS is not led away from it.
class Transfer {
 public:
  /// Throws kUnsupported in a program that was built without libcurl, or where there is none.
  explicit Transfer(std::string token);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer();

  /// The whole reply in memory, at most 64 MiB; redirects are followed.
  Transferred get(const std::string& url);
  /// The headers alone, of the first reply.
  Transferred head(const std::string& url);
  /// Into a file, from where it ends; a hub that does not know ranges begins again.
  Transferred download(const std::string& url, const Sink& sink);
  bool has_token() const;

  struct Handle;

 private:
  std::unique_ptr<Handle> handle_;
};

/// `text` as a part of a URL; '/' stays.
std::string url_path(const std::string& text);

}  // namespace veery::cli
