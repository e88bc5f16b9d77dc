#include "tasks/speech/subtitles.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace veery {
namespace {

int64_t milliseconds(double seconds) { return std::llround(std::max(seconds, 0.0) * 1000); }

// Removes surrounding spaces and text that would end a line, a cell or a cue.
std::string cleaned(std::string_view text, TranscriptForm form) {
  std::string out;
  for (const char c : text) out += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  const size_t first = std::min(out.find_first_not_of(' '), out.size());
  out = out.substr(first, out.find_last_not_of(' ') + 1 - first);
  if (form == TranscriptForm::kText || form == TranscriptForm::kTsv) return out;
  for (size_t at = 0; (at = out.find("-->", at)) != std::string::npos;) out.replace(at, 3, "->");
  return out;
}

// Rounds to three decimals, so that JSON does not show digits of the binary representation.
double rounded(double x, double digits = 1000) { return std::round(x * digits) / digits; }

Json words_json(const std::vector<SpokenWord>& words) {
  Json all = Json::array();
  for (const SpokenWord& word : words)
    all.push_back({{"word", word.text},
                   {"start", rounded(word.start)},
                   {"end", rounded(word.end)},
                   {"probability", rounded(word.probability, 1e6)}});
  return all;
}

Json segment_json(const TranscribedSegment& segment, size_t index, bool words) {
  Json json = {{"id", index},
               {"start", rounded(segment.start)},
               {"end", rounded(segment.end)},
               {"text", segment.text},
               {"tokens", Json(segment.tokens)},
               {"temperature", rounded(segment.temperature)},
               {"avg_logprob", rounded(segment.mean_log_prob, 1e6)},
               {"compression_ratio", rounded(segment.compression, 1e6)},
               {"no_speech_prob", rounded(segment.no_speech, 1e6)}};
  if (words) json["words"] = words_json(segment.words);
  return json;
}

// Returns the words of a segment with one underlined, without the space before it.
std::string underlined(const std::vector<SpokenWord>& words, size_t which) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const size_t first = std::min(word.find_first_not_of(' '), word.size());
    text += i != which ? word : word.substr(0, first) + "<u>" + word.substr(first) + "</u>";
  }
  return text;
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

std::string TranscriptWriter::head() const {
  return form_ == TranscriptForm::kVtt   ? "WEBVTT\n\n"
         : form_ == TranscriptForm::kTsv ? "start\tend\ttext\n"
                                         : "";
}

std::string TranscriptWriter::cue(double start, double end, std::string_view text) {
  const std::string shown = cleaned(text, form_);
  if (form_ == TranscriptForm::kVtt)
    return fmt::format("{} --> {}\n{}\n\n", time_text(start, false, '.'),
                       time_text(end, false, '.'), shown);
  return fmt::format("{}\n{} --> {}\n{}\n\n", ++cues_, time_text(start, true, ','),
                     time_text(end, true, ','), shown);
}

std::string TranscriptWriter::word_cues(const TranscribedSegment& s) {
  std::string cues;
  double last = s.start;
  for (size_t i = 0; i < s.words.size(); ++i) {
    const SpokenWord& word = s.words[i];
    if (milliseconds(last) < milliseconds(word.start)) cues += cue(last, word.start, s.text);
    cues += cue(word.start, word.end, underlined(s.words, i));
    last = word.end;
  }
  return cues;
}

std::string TranscriptWriter::part(const TranscribedSegment& s) {
  switch (form_) {
    case TranscriptForm::kText: return cleaned(s.text, form_) + "\n";
    case TranscriptForm::kSrt:
    case TranscriptForm::kVtt:
      return highlight_ && !s.words.empty() ? word_cues(s) : cue(s.start, s.end, s.text);
    case TranscriptForm::kTsv:
      return fmt::format("{}\t{}\t{}\n", milliseconds(s.start), milliseconds(s.end),
                         cleaned(s.text, form_));
    case TranscriptForm::kJson: break;
  }
  return {};
}

std::string TranscriptWriter::tail(const Transcript& transcript) const {
  if (form_ != TranscriptForm::kJson) return {};
  Json segments = Json::array();
  for (size_t i = 0; i < transcript.segments.size(); ++i)
    segments.push_back(segment_json(transcript.segments[i], i, transcript.has_words));
  return dump_json({{"text", transcript.text()},
                    {"language", transcript.language},
                    {"language_probability", rounded(transcript.language_probability, 1e6)},
                    {"duration", rounded(transcript.seconds)},
                    {"segments", std::move(segments)}}) +
         "\n";
}

}  // namespace veery
