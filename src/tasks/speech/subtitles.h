// subtitles.h: transcripts in the forms that players and programs read.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tasks/speech/transcribe.h"

namespace veery {

/// txt: a line a segment; srt: SubRip; vtt: WebVTT; tsv: start and end in milliseconds and the
/// text, with a heading; json: all that is known, one object.
enum class TranscriptForm : uint8_t { kText, kSrt, kVtt, kTsv, kJson };

/// By its name as above; absent: there is no such form.
std::optional<TranscriptForm> transcript_form(std::string_view name);

/// "01:02:03.456", or "02:03.456" below an hour where hours may be left out.
std::string time_text(double seconds, bool hours, char point);

/// Writes a transcript in one form, piece by piece; of JSON all stands in tail().
class TranscriptWriter {
 public:
  /// `highlight`: of srt and vtt, a cue for each word, in which it is underlined (`<u>`), and for
  /// what is between words; segments without words are one cue.
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
