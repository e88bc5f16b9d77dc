// subtitles.h: transcripts in the forms that players and programs read.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "engine/speech/transcribe.h"

namespace veery {

/// txt: a line a segment; srt: SubRip; vtt: WebVTT; tsv: start and end in milliseconds and the
/// text, with a heading; json: all that is known, one object.
enum class TranscriptForm : uint8_t { kText, kSrt, kVtt, kTsv, kJson };

/// By its name as above; absent: there is no such form.
std::optional<TranscriptForm> transcript_form(std::string_view name);

/// "01:02:03.456", or "02:03.456" below an hour where hours may be left out.
std::string time_text(double seconds, bool hours, char point);

/// What stands before all segments, one segment (`index` from 0), and what stands behind; of JSON
/// all is behind.
std::string transcript_head(TranscriptForm form);
std::string transcript_part(TranscriptForm form, const TranscribedSegment& segment, size_t index);
std::string transcript_tail(TranscriptForm form, const Transcript& transcript);

}  // namespace veery
