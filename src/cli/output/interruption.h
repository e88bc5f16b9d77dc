// interruption.h: a signal that ends the program while a file is written leaves nothing behind.
#pragma once
#include <array>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "cli/output/progress.h"

namespace veery::cli {

/// While it lives, signals that people and systems end programs with (Ctrl-C, kill, a closed
/// terminal, a limit of processor time) first remove what is being written; then the program ends,
/// at once and whatever it does, with the status that shells expect: 128 and the signal's number.
/// Those that were ignored stay so. One at a time.
class Interruption {
 public:
  /// Throws kIo where the system has no pipe left.
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
  std::array<struct sigaction, kSignals.size()> before_{};
  int ends_[2];  ///< of the pipe through which the handler tells the watcher
  std::thread watcher_;
};

/// While a model is written: a bar that says how far, and an end without leftovers.
class Writing {
 public:
  explicit Writing(std::string what) : bar_(std::move(what)) {}
  /// To be called with the bytes done, all bytes and the tensor; lives no longer than this.
  std::function<void(size_t, size_t, const std::string&)> progress() {
    return [this](size_t done, size_t all, const std::string& tensor) {
      bar_.show(static_cast<double>(done), static_cast<double>(all), tensor);
    };
  }
  void clear() { bar_.clear(); }

 private:
  Interruption interruption_;
  Progress bar_;
};

}  // namespace veery::cli
