// digest.h: digests that verify downloaded files.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace veery::cli {

/// Returns the digest of the first `bytes` bytes of an open file, in hexadecimal: SHA-256, or if
/// `git` is set SHA-1 of git's blob header and the bytes. Calls `done` with the bytes read so far.
/// Throws kIo.
std::string digest_of(int descriptor, uint64_t bytes, bool git,
                      const std::function<void(uint64_t)>& done);

}  // namespace veery::cli
