// progress.h: one line on standard error that says how far a job is; nothing where that is no
// terminal.
#pragma once
#include <string>

namespace veery::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  /// `note`: what to say behind the bar.
  void show(double done, double all, const std::string& note = {});
  void clear();

 private:
  std::string what_;
  bool enabled_;
  bool shown_ = false;
  double next_ = 0;
};

}  // namespace veery::cli
