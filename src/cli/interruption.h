// interruption.h: Ctrl-C while a file is written ends the program with what is half-written gone.
#pragma once
#include <csignal>

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

}  // namespace veery::cli
