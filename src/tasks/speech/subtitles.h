// subtitles.h: transcripts in the formats of players and programs.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tasks/speech/transcribe.h"

namespace veery {

/// txt: one line per segment; srt: SubRip; vtt: WebVTT; tsv: start and end in milliseconds and
/// text, with a heading; json: the whole transcript as one object.
enum class TranscriptForm : uint8_t { kText, kSrt, kVtt, kTsv, kJson };

/// Finds a format by its name as above; nothing if it is unknown.
std::optional<TranscriptForm> transcript_form(std::string_view name);

/// Returns "01:02:03.456", or "02:03.456" below an hour if `hours` is false.
std::string time_text(double seconds, bool hours, char point);

/// Writes a transcript segment by segment. JSON is written by tail() as a whole.
class TranscriptWriter {
 public:
  /// `highlight`: for srt and vtt, writes a cue per word, with that word underlined (`<u>`), and
  /// cues for the pauses between words; segments without words are one cue.
  explicit TranscriptWriter(TranscriptForm form, bool highlight = false)
      : form_(form), highlight_(highlight) {}

  std::string head() const;
  std::string part(const TranscribedSegment& segment);
  std::string tail(const Transcript& transcript) const;

 private:
  std::string cue(double start, double end, std::string_view text);
  std::string word_cues(const TranscribedSegment& segment);

  TranscriptForm form_;
  bool highlight_;
  size_t cues_ = 0;
};

}  // namespace veery
