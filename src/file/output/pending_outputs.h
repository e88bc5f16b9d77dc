// pending_outputs.h: tracks the temporary files and folders of this process, so that none remains.
#pragma once
#include <functional>
#include <mutex>
#include <string>

namespace veery {

/// While an instance exists, other threads can neither create nor rename pending outputs, so the
/// outputs that this thread puts in place appear together.
class PendingHold {
 public:
  PendingHold();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// A unique temporary name next to `target`; removed with its contents unless put in place.
class PendingOutput {
 public:
  /// `create` creates a file or folder of that name; its exceptions propagate. Throws kIo after
  /// discard_pending_outputs().
  PendingOutput(std::string target, const std::function<void(const std::string&)>& create);
  PendingOutput(const PendingOutput&) = delete;
  PendingOutput& operator=(const PendingOutput&) = delete;
  ~PendingOutput();

  const std::string& temporary() const { return temporary_; }
  /// Renames it to the target. Returns 0 or an errno: EEXIST if the target is not a regular file or
  /// must not be replaced.
  int put_in_place(bool replace);

 private:
  std::string target_;
  std::string temporary_;  ///< empty: in place
};

/// Removes all pending outputs and prevents new ones and renames; for a program that is about to
/// exit while other threads still write.
void discard_pending_outputs();

}  // namespace veery
