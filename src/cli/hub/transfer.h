// transfer.h: HTTP and HTTPS requests by libcurl.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace veery::cli {

/// The reply to a request. Names of headers are in lower case.
struct Reply {
  long status = 0;
  std::map<std::string, std::string> headers;  ///< of the first reply, before redirects
  std::string body;                            ///< only the first bytes for an error status
};

/// The file that a download is written to.
struct Sink {
  int descriptor = -1;
  uint64_t have = 0;  ///< bytes that the file has already: the request is for those after them
  uint64_t most = 0;  ///< size of the whole file; more bytes are an error
  std::function<void(uint64_t bytes)> arrived;  ///< called with the bytes that the file has
};

/// Why a request failed.
enum class Cut {
  kNone,
  kNetwork,  ///< no connection, or it broke; a retry may help
  kDisk,     ///< the file could not be written
  kTooMuch,  ///< more bytes than the file or the memory limit
};
struct Transferred {
  Reply reply;
  Cut cut = Cut::kNone;
  std::string why;    ///< reason of `cut`, for messages
  uint64_t have = 0;  ///< bytes that the file has now
};

/// A connection for consecutive requests. Checks certificates and uses the proxies of the
/// environment. Sends the token only to the host of a request, not to the target of a redirect.
/// Does not follow redirects from HTTPS to HTTP.
class Transfer {
 public:
  /// Throws kUnsupported if veery was built without libcurl or the library cannot be loaded.
  explicit Transfer(std::string token);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer();

  /// Returns the whole reply, at most 64 MiB. Follows redirects.
  Transferred get(const std::string& url);
  /// Returns the headers of the first reply. Follows no redirects.
  Transferred head(const std::string& url);
  /// Downloads into a file, from its end on; from the beginning if the server ignores ranges.
  Transferred download(const std::string& url, const Sink& sink);
  bool has_token() const;

  struct Handle;

 private:
  std::unique_ptr<Handle> handle_;
};

/// Returns `text` percent-encoded for the path of a URL; '/' is kept.
std::string url_path(const std::string& text);

}  // namespace veery::cli
