// pending_outputs.h: the temporary files and folders of this process, so that none outlives it.
#pragma once
#include <functional>
#include <mutex>
#include <string>

namespace veery {

/// While one lives, nothing appears under a temporary name or gets its own, but by the same thread:
/// what is put in place under one is put in place together.
class PendingHold {
 public:
  PendingHold();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// A temporary name of its own beside `target`; removed with what it has unless put in place.
class PendingOutput {
 public:
  /// `create` makes file or folder of that name; what it throws is passed on. Throws kIo after
  /// discard_pending_outputs().
  PendingOutput(std::string target, const std::function<void(const std::string&)>& create);
  PendingOutput(const PendingOutput&) = delete;
  PendingOutput& operator=(const PendingOutput&) = delete;
  ~PendingOutput();

  const std::string& temporary() const { return temporary_; }
  /// Renames it to the target. Returns 0 or what errno says: EEXIST where something has the name
  /// that is no file or must not be replaced.
  int put_in_place(bool replace);

 private:
  std::string target_;
  std::string temporary_;  ///< empty: in place
};

/// Removes all that is pending, and lets none appear or get its name from now on: for a program
/// that is about to end while other threads write.
void discard_pending_outputs();

}  // namespace veery
