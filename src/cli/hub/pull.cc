#include "cli/hub/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/hub/digest.h"
#include "cli/hub/listing.h"
#include "cli/hub/transfer.h"
#include "file/hub/repository.h"
#include "file/output/pending_file.h"

namespace veery::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEndpoint = "https://huggingface.co";
constexpr int kTries = 5;  // in a row without a new byte
constexpr std::chrono::milliseconds kFirstPause{500};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  return text;
}

void make_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    throw Error(ErrorKind::kIo, "{}: cannot be created: {}", folder.string(), code.message());
}

uint64_t size_of(const std::string& path) {
  std::error_code code;
  const uint64_t bytes = fs::file_size(path, code);
  return code ? 0 : bytes;
}

Descriptor open_to_write(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) throw Error(ErrorKind::kIo, "{}: cannot be written: {}", path, std::strerror(errno));
  return Descriptor(fd);
}

// The download of one model.
class Pull {
 public:
  Pull(const std::string& repository, const HubSettings& settings, const ModelPlaces& places,
       const PullView& view)
      : repository_(repository),
        settings_(settings),
        view_(view),
        transfer_(settings.token),
        folder_(fs::path(places.hub) / cache_folder(repository)),
        locks_(fs::path(places.hub) / ".locks" / cache_folder(repository)) {}

  Pulled run(const std::string& name, const std::string& file) {
    const HubModel model = list_model(transfer_, settings_.endpoint, repository_);
    std::vector<HubFile> files = wanted_files(name, file, settings_.endpoint, model);
    complete(transfer_, settings_.endpoint, repository_, model.commit, files);
    Pulled pulled{.commit = model.commit, .files = files.size()};
    for (const HubFile& one : files) pulled.bytes += one.bytes;
    all_ = pulled.bytes;
    make_folders(folder_ / "blobs");
    make_folders(folder_ / "refs");
    make_folders(locks_);
    check_room(files);
    for (const HubFile& one : files) {
      pulled.fetched += fetch(one, model.commit);
      link(one, model.commit);
      done_ += one.bytes;
    }
    // Written last, so that refs/main names complete snapshots only.
    PendingFile reference((folder_ / "refs" / "main").string());
    reference.write(model.commit.data(), model.commit.size());
    reference.commit();
    return pulled;
  }

 private:
  std::string blob(const HubFile& file) const { return (folder_ / "blobs" / file.digest).string(); }

  bool is_there(const HubFile& file) const {
    return path_exists(blob(file)) && size_of(blob(file)) == file.bytes;
  }

  void check_room(const std::vector<HubFile>& files) const {
    uint64_t missing = 0;
    for (const HubFile& file : files)
      if (!is_there(file))
        missing += file.bytes - std::min(file.bytes, size_of(blob(file) + ".incomplete"));
    std::error_code code;
    const fs::space_info space = fs::space(folder_, code);
    if (!code && space.available < missing)
      throw Error(ErrorKind::kIo,
                  "{}: found {} bytes to download, but only {} bytes free on the disk",
                  folder_.string(), missing, space.available);
  }

  // Waits for other programs that download the same file, huggingface_hub among them.
  Descriptor lock(const HubFile& file) const {
    const std::string path = (locks_ / (file.digest + ".lock")).string();
    Descriptor held = open_to_write(path);
    if (::flock(held.get(), LOCK_EX | LOCK_NB) == 0) return held;
    if (errno == EWOULDBLOCK)
      view_.say(fmt::format("waiting for another program that downloads {}", file.path));
    while (::flock(held.get(), LOCK_EX) != 0)
      if (errno != EINTR)
        throw Error(ErrorKind::kIo, "{}: cannot be locked: {}", path, std::strerror(errno));
    return held;
  }

  // Returns the number of bytes that were downloaded.
  uint64_t fetch(const HubFile& file, const std::string& commit) {
    view_.progress(done_, all_, file.path);
    if (is_there(file)) return 0;
    const Descriptor held = lock(file);
    if (is_there(file)) return 0;
    const std::string partial = blob(file) + ".incomplete";
    const Descriptor out = open_to_write(partial);
    uint64_t have = size_of(partial);
    if (have > file.bytes) truncate(out, partial, have);
    const uint64_t before = have;
    download(file, commit, out, partial, have);
    check(file, out, partial);
    if (::fsync(out.get()) != 0 || ::rename(partial.c_str(), blob(file).c_str()) != 0)
      throw Error(ErrorKind::kIo, "{}: cannot be written: {}", blob(file), std::strerror(errno));
    return file.bytes - std::min(before, file.bytes);
  }

  static void truncate(const Descriptor& out, const std::string& path, uint64_t& have) {
    if (::ftruncate(out.get(), 0) != 0)
      throw Error(ErrorKind::kIo, "{}: cannot be written: {}", path, std::strerror(errno));
    have = 0;
  }

  void download(const HubFile& file, const std::string& commit, const Descriptor& out,
                const std::string& partial, uint64_t& have) {
    const std::string url = file_url(settings_.endpoint, repository_, commit, file.path);
    auto pause = kFirstPause;
    uint64_t furthest = have;
    for (int tries = 0; have < file.bytes;) {
      const Sink sink{out.get(), have, file.bytes,
                      [&](uint64_t bytes) { view_.progress(done_ + bytes, all_, file.path); }};
      const Transferred found = transfer_.download(url, sink);
      have = found.have;
      if (have == file.bytes && found.cut == Cut::kNone) return;
      refuse(found, url, partial, file);
      if (found.reply.status == 416) truncate(out, partial, have);
      if (have > furthest) {
        furthest = have;
        tries = 0;
        pause = kFirstPause;
      }
      const std::string why =
          found.cut == Cut::kNetwork
              ? printable(found.why, 200)
              : fmt::format("status {}, {} of {} bytes", found.reply.status, have, file.bytes);
      if (++tries == kTries)
        throw Error(ErrorKind::kIo, "{}: {}, {} times in a row; the partial file is kept", url, why,
                    kTries);
      view_.say(fmt::format("{}: {}; retrying", file.path, why));
      std::this_thread::sleep_for(pause);
      pause *= 2;
    }
  }

  // Throws for errors that another attempt does not fix.
  void refuse(const Transferred& found, const std::string& url, const std::string& partial,
              const HubFile& file) const {
    if (found.cut == Cut::kDisk)
      throw Error(ErrorKind::kIo, "{}: cannot be written: {}; the partial file is kept", partial,
                  found.why);
    if (found.cut == Cut::kTooMuch) {
      ::unlink(partial.c_str());
      throw Error(ErrorKind::kFormat, "{}: {}, expected {}", url, found.why, file.bytes);
    }
    const long status = found.reply.status;
    const bool passing =
        status < 400 || status == 408 || status == 416 || status == 429 || status >= 500;
    if (found.cut == Cut::kNone && !passing)
      throw Error(status == 404 ? ErrorKind::kNotFound : ErrorKind::kIo, "{}",
                  status_text(status, url, transfer_.has_token()));
  }

  void check(const HubFile& file, const Descriptor& out, const std::string& partial) const {
    const std::string note = "checking " + file.path;
    const std::string digest =
        digest_of(out.get(), file.bytes, file.digest.size() == 40,
                  [&](uint64_t) { view_.progress(done_ + file.bytes, all_, note); });
    if (digest == file.digest) return;
    ::unlink(partial.c_str());
    throw Error(ErrorKind::kFormat, "{}/{}: found digest {}, expected {}; the file is removed",
                repository_, file.path, digest, file.digest);
  }

  void link(const HubFile& file, const std::string& commit) const {
    const fs::path at = folder_ / "snapshots" / commit / file.path;
    make_folders(at.parent_path());
    fs::path target = fs::path("..") / "..";
    for (const char c : file.path)
      if (c == '/') target /= "..";
    target = target / "blobs" / file.digest;
    std::error_code code;
    if (fs::is_symlink(at, code) && fs::read_symlink(at, code) == target) return;
    fs::remove(at, code);
    fs::create_symlink(target, at, code);
    if (code) throw Error(ErrorKind::kIo, "{}: cannot be created: {}", at.string(), code.message());
  }

  const std::string& repository_;
  const HubSettings& settings_;
  const PullView& view_;
  Transfer transfer_;
  fs::path folder_, locks_;
  uint64_t done_ = 0, all_ = 0;  ///< bytes of the files before this one, and of all
};

}  // namespace

bool hub_offline() {
  const std::string offline = variable("HF_HUB_OFFLINE");
  return !offline.empty() && offline != "0" && lower_ascii(offline) != "false";
}

HubSettings hub_settings() {
  if (hub_offline())
    throw Error(ErrorKind::kInput, "HF_HUB_OFFLINE is {}: downloads are disabled",
                printable(variable("HF_HUB_OFFLINE")));
  HubSettings settings{variable("HF_ENDPOINT"), variable("HF_TOKEN")};
  if (settings.endpoint.empty()) settings.endpoint = kEndpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (!settings.endpoint.starts_with("https://") && !settings.endpoint.starts_with("http://"))
    throw Error(ErrorKind::kInput, "HF_ENDPOINT is '{}', expected http://HOST or https://HOST",
                printable(settings.endpoint));
  if (!settings.token.empty()) return settings;
  std::string path = variable("HF_TOKEN_PATH");
  if (path.empty()) path = (fs::path(hub_home()) / "token").string();
  if (path_exists(path)) settings.token = trimmed(read_text(path, kMessagesFile));
  return settings;
}

Pulled pull_model(const std::string& name, const HubSettings& settings, const ModelPlaces& places,
                  const PullView& view) {
  const std::string known = repository_of(name);
  const std::string& full = known.empty() ? name : known;
  const RepositoryFile wanted = parse_repository(full);
  if (wanted.repository.find('/') == std::string::npos)
    throw Error(ErrorKind::kInput, "found '{}', expected ORG/NAME[:FILE] or a known name",
                printable(name));
  Pulled pulled = Pull(wanted.repository, settings, places, view).run(full, wanted.file);
  pulled.path = find_named_model(full, places);
  return pulled;
}

}  // namespace veery::cli
