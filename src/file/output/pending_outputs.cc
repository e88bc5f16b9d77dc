#include "file/output/pending_outputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/untrusted_file.h"

namespace veery {
namespace {

struct Registry {
  std::recursive_mutex mutex;
  std::set<std::string> names;  // temporary names
  unsigned made = 0;
  bool closed = false;
};

// Never destroyed: the thread that discards outputs may run after static destructors.
Registry& registry() {
  static Registry* const all = new Registry;
  return *all;
}

void remove_now(const std::string& name) {
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
}

// Renames without replacing, unless `replace`; returns 0 or errno. Not all file systems support
// that atomically; then existence is checked just before.
int rename_to(const std::string& from, const std::string& to, bool replace) {
  struct stat found = {};
  const bool there = ::lstat(to.c_str(), &found) == 0;
  if (there && !(replace && S_ISREG(found.st_mode))) return EEXIST;
  if (!replace) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
  }
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

PendingHold::PendingHold() : lock_(registry().mutex) {}

PendingOutput::PendingOutput(std::string target,
                             const std::function<void(const std::string&)>& create)
    : target_(std::move(target)) {
  Registry& all = registry();
  const PendingHold hold;
  if (all.closed)
    throw Error(ErrorKind::kIo, "{}: not written, the program is shutting down",
                shown_path(target_));
  temporary_ = fmt::format("{}.{}.{}.part", target_, ::getpid(), all.made++);
  const auto entry = all.names.insert(temporary_).first;
  try {
    create(temporary_);
  } catch (...) {
    all.names.erase(entry);
    throw;
  }
}

PendingOutput::~PendingOutput() {
  const PendingHold hold;
  if (temporary_.empty()) return;
  registry().names.erase(temporary_);
  remove_now(temporary_);
}

int PendingOutput::put_in_place(bool replace) {
  const PendingHold hold;
  if (registry().closed) return ECANCELED;
  if (const int code = rename_to(temporary_, target_, replace)) return code;
  registry().names.erase(temporary_);
  temporary_.clear();
  return 0;
}

void discard_pending_outputs() {
  Registry& all = registry();
  const PendingHold hold;
  all.closed = true;
  for (const std::string& name : all.names) remove_now(name);
  all.names.clear();
}

}  // namespace veery
