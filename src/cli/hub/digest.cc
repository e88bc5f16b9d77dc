#include "cli/hub/digest.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#ifdef VEERY_CURL
#include <openssl/evp.h>
#endif

namespace veery::cli {

#ifdef VEERY_CURL
std::string digest_of(int descriptor, uint64_t bytes, bool git,
                      const std::function<void(uint64_t)>& done) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  bool good = context && EVP_DigestInit_ex(context.get(), git ? EVP_sha1() : EVP_sha256(), nullptr);
  if (git && good) {
    const std::string header = fmt::format("blob {}", bytes);
    good = EVP_DigestUpdate(context.get(), header.c_str(), header.size() + 1) != 0;  // with its 0
  }
  std::vector<char> part(size_t{1} << 20);
  for (uint64_t at = 0; good && at < bytes;) {
    const ssize_t got = ::pread(descriptor, part.data(), part.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error(ErrorKind::kIo, "cannot be read: {}",
                  got == 0 ? "the file was truncated" : std::strerror(errno));
    good = EVP_DigestUpdate(context.get(), part.data(), static_cast<size_t>(got)) != 0;
    at += static_cast<uint64_t>(got);
    if (done) done(at);
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (!good || EVP_DigestFinal_ex(context.get(), digest, &size) == 0)
    throw Error(ErrorKind::kIo, "the digest cannot be computed");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}
#else
std::string digest_of(int, uint64_t, bool, const std::function<void(uint64_t)>&) { return {}; }
#endif

}  // namespace veery::cli
