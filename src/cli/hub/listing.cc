#include "cli/hub/listing.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/hub/transfer.h"
#include "file/hub/repository.h"
#include "file/hub/snapshot.h"

namespace veery::cli {
namespace {

constexpr size_t kMaxFiles = 100000;

bool is_hex(std::string_view text, size_t size) {
  return text.size() == size && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Whether the path stays inside of the folder and has no hidden names or control characters.
bool is_plain_path(const std::string& path) {
  if (path.empty() || path.size() > 1000 || printable(path, 1000) != path) return false;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end == begin || path[begin] == '.') return false;
    begin = end + 1;
  }
  return path.find('\\') == std::string::npos;
}

// Takes digest and size of a file from the headers of its address, if the list lacks them.
void ask_for(Transfer& transfer, const std::string& url, HubFile& file) {
  const Transferred found = transfer.head(url);
  const auto header = [&](const char* linked, const char* plain) {
    const auto& headers = found.reply.headers;
    if (const auto there = headers.find(linked); there != headers.end()) return there->second;
    const auto there = headers.find(plain);
    return there == headers.end() ? std::string() : there->second;
  };
  if (found.cut != Cut::kNone || found.reply.status >= 400)
    throw Error(ErrorKind::kIo, "{}: {}", url,
                found.cut != Cut::kNone ? found.why : fmt::format("status {}", found.reply.status));
  std::string etag = header("x-linked-etag", "etag");
  std::erase(etag, '"');
  if (etag.starts_with("W/")) etag.erase(0, 2);
  file.digest = etag;
  const std::string size = header("x-linked-size", "content-length");
  if (!size.empty() && size.size() < 19 &&
      size.find_first_not_of("0123456789") == std::string::npos)
    file.bytes = std::stoull(size);
}

HubFile read_file(const Json& one) {
  HubFile file{one.at("rfilename").get<std::string>()};
  if (one.contains("size") && one.at("size").is_number())
    file.bytes = one.at("size").get<uint64_t>();
  if (one.contains("lfs") && one.at("lfs").is_object()) {
    const Json& large = one.at("lfs");
    if (large.contains("sha256")) file.digest = large.at("sha256").get<std::string>();
    if (large.contains("size")) file.bytes = large.at("size").get<uint64_t>();
  } else if (one.contains("blobId") && one.at("blobId").is_string()) {
    file.digest = one.at("blobId").get<std::string>();
  }
  return file;
}

bool ends_with_one(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

// Folders of sentence-transformers' modules are numbered: 1_Pooling, 2_Dense.
bool is_module_folder(std::string_view folder) {
  const size_t cut = folder.find('_');
  return cut != std::string_view::npos && cut > 0 &&
         folder.substr(0, cut).find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<HubFile> folder_files(const HubModel& model) {
  const auto holds = [&](std::string_view begin) {
    return std::ranges::any_of(model.files, [&](const HubFile& file) {
      return file.path.starts_with(begin) && file.path.ends_with(".safetensors");
    });
  };
  const bool split = holds("model");
  std::vector<HubFile> wanted;
  for (const HubFile& file : model.files) {
    const size_t slash = file.path.rfind('/');
    if (slash != std::string::npos && !is_module_folder(file.path.substr(0, slash))) continue;
    // consolidated*.safetensors are the same weights again, for programs of the publisher.
    if (split && file.path.starts_with("consolidated")) continue;
    if (ends_with_one(file.path, {".safetensors", ".json", ".jinja", ".model", ".tiktoken"}) ||
        ends_with_one(file.path, {"vocab.txt", "merges.txt"}))
      wanted.push_back(file);
  }
  return wanted;
}

}  // namespace

std::string status_text(long status, const std::string& what, bool token) {
  if (status == 401 || (status == 404 && !token))
    return fmt::format(
        "{} does not exist or needs a token with access to it in HF_TOKEN (status {})", what,
        status);
  if (status == 403)
    return fmt::format(
        "{} cannot be read with this token: accept the terms on the hub first, or use another "
        "token (status 403)",
        what);
  if (status == 404) return fmt::format("{} does not exist (status 404)", what);
  return fmt::format("{}: found status {}, expected 200", what, status);
}

HubModel list_model(Transfer& transfer, const std::string& endpoint,
                    const std::string& repository) {
  const std::string url =
      fmt::format("{}/api/models/{}/revision/main?blobs=true", endpoint, url_path(repository));
  const Transferred found = transfer.get(url);
  if (found.cut != Cut::kNone)
    throw Error(ErrorKind::kIo, "{}: {}", url, printable(found.why, 200));
  if (found.reply.status != 200)
    throw Error(found.reply.status == 404 ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: {}",
                endpoint, status_text(found.reply.status, repository, transfer.has_token()));
  HubModel model;
  try {
    const Json reply = parse_json(found.reply.body, url);
    model.commit = reply.at("sha").get<std::string>();
    for (const Json& one : reply.at("siblings")) {
      HubFile file = read_file(one);
      if (is_plain_path(file.path)) model.files.push_back(std::move(file));
      if (model.files.size() > kMaxFiles)
        throw Error(ErrorKind::kLimit, "more than {} files", kMaxFiles);
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw Error(ErrorKind::kFormat, "{}: the reply does not describe a model: {}", url,
                error.what());
  }
  if (!is_hex(model.commit, 40))
    throw Error(ErrorKind::kFormat, "{}: sha is '{}', expected 40 hexadecimal digits", url,
                printable(model.commit));
  std::ranges::sort(model.files, {}, &HubFile::path);
  return model;
}

std::vector<HubFile> wanted_files(const std::string& name, const std::string& file,
                                  const std::string& endpoint, const HubModel& model) {
  std::vector<std::string> paths;
  for (const HubFile& one : model.files) paths.push_back(one.path);
  const bool folder =
      std::ranges::binary_search(paths, std::string("config.json")) &&
      std::ranges::any_of(paths, [](const std::string& path) {
        return path.ends_with(".safetensors") && path.find('/') == std::string::npos;
      });
  if (file.empty() && folder) return folder_files(model);
  const std::vector<std::string> models = first_parts(paths);
  if (models.empty())
    throw Error(ErrorKind::kNotFound, "{}: {} has {}, expected {}", name, endpoint,
                file.empty() ? "no model of that name" : "no GGUF file of that name",
                file.empty() ? "a GGUF file, or config.json with *.safetensors"
                             : "one called " + printable(file));
  const std::string whole = without_part(choose_gguf(name, file, endpoint, models));
  std::vector<HubFile> parts;
  for (const HubFile& one : model.files)
    if (without_part(one.path) == whole) parts.push_back(one);
  return parts;
}

void complete(Transfer& transfer, const std::string& endpoint, const std::string& repository,
              const std::string& commit, std::vector<HubFile>& files) {
  for (HubFile& file : files) {
    const std::string url = file_url(endpoint, repository, commit, file.path);
    if (file.digest.empty() || file.bytes == 0) ask_for(transfer, url, file);
    if (!is_hex(file.digest, 40) && !is_hex(file.digest, 64))
      throw Error(ErrorKind::kFormat,
                  "{}: the digest is '{}', expected 40 or 64 hexadecimal digits", url,
                  printable(file.digest));
  }
}

std::string file_url(const std::string& endpoint, const std::string& repository,
                     const std::string& commit, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", endpoint, url_path(repository), commit, url_path(path));
}

}  // namespace veery::cli
