#include "serve/page/page.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "base/error.h"

namespace veery::serve {

const PageFile* find_page_file(std::string_view name) {
  const auto found = std::ranges::find(kPageFiles, name, &PageFile::name);
  return found == kPageFiles.end() ? nullptr : &*found;
}

std::string page_content(const PageFile& file) {
  // A gzip file ends with its uncompressed size modulo 2^32, little-endian (RFC 1952).
  uint32_t size = 0;
  for (size_t i = 1; i <= 4; ++i)
    size = size << 8 | static_cast<unsigned char>(file.gzip[file.gzip.size() - i]);
  std::string content(size, '\0');
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  VEERY_CHECK(inflateInit2(&stream, kGzip) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.gzip.data()));
  stream.avail_in = static_cast<uInt>(file.gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.data());
  stream.avail_out = static_cast<uInt>(content.size());
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  VEERY_CHECK(status == Z_STREAM_END);
  return content;
}

}  // namespace veery::serve
