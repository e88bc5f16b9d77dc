// shard_index_fuzz.cc: any bytes must be an index of files in the folder, or throw veery::Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "file/folder/folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const veery::ShardIndex index = veery::parse_shard_index(text, "fuzz");
    if (index.files.empty() || index.owner_of.empty()) std::abort();
    for (const std::string& file : index.files)
      if (file.empty() || file.find('/') != file.npos || file[0] == '.') std::abort();
    for (const auto& [tensor, file] : index.owner_of)
      if (!std::ranges::binary_search(index.files, file)) std::abort();
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
