// interruption.h: Ctrl-C while a file is written ends the program with what is half-written gone.
#pragma once
#include <csignal>
#include <functional>
#include <string>
#include <utility>

#include "cli/progress.h"

namespace veery::cli {

/// While it lives, SIGINT, SIGTERM and SIGHUP are only noted; a second one ends the program.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  /// Throws the Status that shells expect of a program that a signal ended.
  void check() const;

 private:
  struct sigaction before_[3]{};
};

/// While a model is written: a bar that says how far, and the end where a signal asks for it.
class Writing {
 public:
  explicit Writing(std::string what) : bar_(std::move(what)) {}
  /// To be called with the bytes done, all bytes and the tensor; lives no longer than this.
  std::function<void(size_t, size_t, const std::string&)> progress() {
    return [this](size_t done, size_t all, const std::string& tensor) {
      interruption_.check();
      bar_.show(static_cast<double>(done), static_cast<double>(all), tensor);
    };
  }
  void clear() { bar_.clear(); }

 private:
  Interruption interruption_;
  Progress bar_;
};

}  // namespace veery::cli
