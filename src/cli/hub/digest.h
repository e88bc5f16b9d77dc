// digest.h: what a file of a hub is checked by.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace veery::cli {

/// The digest of `bytes` bytes of an open file, in hexadecimal: SHA-256 where `git` is false, else
/// SHA-1 of git's header of a blob and the bytes. `done` is called with the bytes read so far.
/// Throws kIo.
std::string digest_of(int descriptor, uint64_t bytes, bool git,
                      const std::function<void(uint64_t)>& done);

}  // namespace veery::cli
