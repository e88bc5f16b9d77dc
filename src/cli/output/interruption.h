// interruption.h: removes unfinished output files when a signal ends the program.
#pragma once
#include <array>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "cli/output/progress.h"

namespace veery::cli {

/// While an object of this class exists, SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU remove the
/// pending outputs and end the program at once, with the status that shells expect (128 + signal).
/// Signals that were ignored stay ignored. At most one object may exist.
class Interruption {
 public:
  /// Throws kIo if no pipe can be opened.
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
  std::array<struct sigaction, kSignals.size()> before_{};
  int ends_[2];  ///< of the pipe from the signal handler to the watcher
  std::thread watcher_;
};

/// A progress bar and an Interruption, for the time in which a model is written.
class Writing {
 public:
  explicit Writing(std::string what) : bar_(std::move(what)) {}
  /// Returns a callback for (bytes done, all bytes, tensor name). It must not outlive this object.
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
