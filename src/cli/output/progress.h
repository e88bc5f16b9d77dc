// progress.h: one line on standard error that says how far a job is; nothing where that is no
// terminal.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  /// `note`: what to say behind the bar. The line is as wide as the terminal is at this moment.
  void show(double done, double all, const std::string& note = {});
  void clear();

 private:
  std::string what_;
  bool enabled_;
  int width_ = 0;  ///< of the line that is on the screen; 0: none is
  double next_ = 0;
};

/// "loading [###...]  50 % note" in at most `columns` columns: the note is cut off, then the bar
/// becomes shorter and goes, then the words; empty where not even the share has room.
std::string progress_line(std::string_view what, double part, std::string_view note, int columns);

}  // namespace veery::cli
