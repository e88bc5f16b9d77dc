// progress.h: a progress bar on standard error, if that is a terminal.
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

  /// Updates the bar at most 20 times a second, after a delay of 0.1 s, so that short jobs show
  /// none. `note`: text after the bar. The line fits the present width of the terminal.
  void show(double done, double all, const std::string& note = {});
  void clear();

 private:
  std::string what_;
  bool enabled_;
  int width_ = 0;    ///< of the line on the screen; 0: none
  double next_ = 0;  ///< time before which show() draws nothing
};

/// Returns "loading [###...]  50 % note" in at most `columns` columns. To fit, it first truncates
/// the note, then shortens and drops the bar, then drops the words; empty if the percentage does
/// not fit either.
std::string progress_line(std::string_view what, double part, std::string_view note, int columns);

}  // namespace veery::cli
