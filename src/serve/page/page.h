// page.h: the files of the web page, which the build compresses and embeds, and the OpenAPI
// document.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace veery::serve {

/// One file of the web page (src/serve/page/app, or a library that CMake found).
struct PageFile {
  std::string_view name;  ///< below "/page/"; "index.html" is also "/"
  std::string_view type;  ///< of the response
  std::string_view tag;   ///< ETag with its quotes, a hash of the content
  std::string_view gzip;  ///< the content as a gzip file
};

/// All files, written by cmake/EmbedPage.cmake.
extern const std::span<const PageFile> kPageFiles;

/// Returns the file of that name, or null.
const PageFile* find_page_file(std::string_view name);

/// Returns the content of `file`, for clients that do not accept gzip.
std::string page_content(const PageFile& file);

/// OpenAPI 3.1, with kOpenApiVersion in place of the version of veery.
extern const std::string_view kOpenApi;
inline constexpr std::string_view kOpenApiVersion = "VERSION";

}  // namespace veery::serve
