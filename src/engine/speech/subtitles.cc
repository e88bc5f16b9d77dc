#include "engine/speech/subtitles.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace veery {
namespace {

int64_t milliseconds(double seconds) { return std::llround(std::max(seconds, 0.0) * 1000); }

// Without spaces around it, and without what would end a line, a cell or a cue.
std::string cleaned(std::string_view text, TranscriptForm form) {
  std::string out;
  for (const char c : text) out += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  const size_t first = std::min(out.find_first_not_of(' '), out.size());
  out = out.substr(first, out.find_last_not_of(' ') + 1 - first);
  if (form == TranscriptForm::kText || form == TranscriptForm::kTsv) return out;
  for (size_t at = 0; (at = out.find("-->", at)) != std::string::npos;) out.replace(at, 3, "->");
  return out;
}

// Three digits behind the point, without those that a float has and nobody meant.
double rounded(double x, double digits = 1000) { return std::round(x * digits) / digits; }

Json segment_json(const TranscribedSegment& segment, size_t index) {
  return {{"id", index},
          {"start", rounded(segment.start)},
          {"end", rounded(segment.end)},
          {"text", segment.text},
          {"tokens", Json(segment.tokens)},
          {"temperature", rounded(segment.temperature)},
          {"avg_logprob", rounded(segment.mean_log_prob, 1e6)},
          {"compression_ratio", rounded(segment.compression, 1e6)},
          {"no_speech_prob", rounded(segment.no_speech, 1e6)}};
}

}  // namespace

std::optional<TranscriptForm> transcript_form(std::string_view name) {
  constexpr std::pair<std::string_view, TranscriptForm> kForms[] = {
      {"txt", TranscriptForm::kText},
      {"srt", TranscriptForm::kSrt},
      {"vtt", TranscriptForm::kVtt},
      {"tsv", TranscriptForm::kTsv},
      {"json", TranscriptForm::kJson}};
  for (const auto& [form_name, form] : kForms)
    if (form_name == name) return form;
  return std::nullopt;
}

std::string time_text(double seconds, bool hours, char point) {
  const int64_t all = milliseconds(seconds);
  const int64_t whole = all / 3600000;
  const std::string front = hours || whole > 0 ? fmt::format("{:02}:", whole) : "";
  return fmt::format("{}{:02}:{:02}{}{:03}", front, all / 60000 % 60, all / 1000 % 60, point,
                     all % 1000);
}

std::string transcript_head(TranscriptForm form) {
  return form == TranscriptForm::kVtt   ? "WEBVTT\n\n"
         : form == TranscriptForm::kTsv ? "start\tend\ttext\n"
                                        : "";
}

std::string transcript_part(TranscriptForm form, const TranscribedSegment& s, size_t index) {
  const std::string text = cleaned(s.text, form);
  switch (form) {
    case TranscriptForm::kText: return text + "\n";
    case TranscriptForm::kSrt:
      return fmt::format("{}\n{} --> {}\n{}\n\n", index + 1, time_text(s.start, true, ','),
                         time_text(s.end, true, ','), text);
    case TranscriptForm::kVtt:
      return fmt::format("{} --> {}\n{}\n\n", time_text(s.start, false, '.'),
                         time_text(s.end, false, '.'), text);
    case TranscriptForm::kTsv:
      return fmt::format("{}\t{}\t{}\n", milliseconds(s.start), milliseconds(s.end), text);
    case TranscriptForm::kJson: break;
  }
  return {};
}

std::string transcript_tail(TranscriptForm form, const Transcript& transcript) {
  if (form != TranscriptForm::kJson) return {};
  Json segments = Json::array();
  for (size_t i = 0; i < transcript.segments.size(); ++i)
    segments.push_back(segment_json(transcript.segments[i], i));
  return dump_json({{"text", transcript.text()},
                    {"language", transcript.language},
                    {"language_probability", rounded(transcript.language_probability, 1e6)},
                    {"duration", rounded(transcript.seconds)},
                    {"segments", std::move(segments)}}) +
         "\n";
}

}  // namespace veery
