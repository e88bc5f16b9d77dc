#include "file/pending_folder.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/error.h"
#include "file/pending_file.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

}  // namespace

PendingFolder::PendingFolder(const std::string& path) : path_(path) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  check_free();
  static std::atomic<unsigned> counter = 0;
  temporary_ = fmt::format("{}.{}.{}.part", path_, ::getpid(), counter++);
  std::error_code code;
  if (!fs::create_directory(temporary_, code))
    throw Error(ErrorKind::kIo, "{}: cannot be created: {}", path_,
                code ? code.message() : temporary_ + " is there");
}

PendingFolder::~PendingFolder() {
  std::error_code code;
  if (!temporary_.empty()) fs::remove_all(temporary_, code);
}

void PendingFolder::write(const std::string& name, std::string_view text) const {
  PendingFile file(this->file(name));
  file.write(text.data(), text.size());
  file.commit();
}

void PendingFolder::commit() {
  check_free();  // the system would put it in place of an empty folder
  std::error_code code;
  fs::rename(temporary_, path_, code);
  if (code) throw Error(ErrorKind::kIo, "{}: cannot be put in place: {}", path_, code.message());
  temporary_.clear();
}

void PendingFolder::check_free() const {
  std::error_code code;
  if (fs::exists(fs::symlink_status(path_, code)))
    throw Error(ErrorKind::kInput, "{}: exists already, expected the name of a new folder", path_);
}

}  // namespace veery
