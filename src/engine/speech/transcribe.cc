#include "engine/speech/transcribe.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "text/languages.h"

namespace veery {
namespace {

// Tokens of a prompt go in one run.
constexpr int32_t kLongestPrompt = 448;

LoadOptions speech_load(LoadOptions load, std::shared_ptr<SpeechKeys> keys) {
  load.entry = [keys = std::move(keys)](ModelFile& file, const TransformerConfig& config) {
    Entry entry = transcribe_entry(file, config);
    *keys = read_speech_keys(file, config);
    return entry;
  };
  load.chunk = std::max(load.chunk, kLongestPrompt);
  // What is heard is read by every token that is said: half of the bytes of f32, and eight times
  // as exact as bf16.
  for (auto* type : {&load.cache_keys, &load.cache_values})
    if (!*type && !load.exact) *type = DType::kF16;
  return load;
}

// Completes the keys.
SpeechTokens found_tokens(const Model& model, SpeechKeys& keys) {
  SpeechTokens tokens = find_speech_tokens(model.tokenizer(), keys, model.config());
  if (keys.usual) add_usual(keys, model.tokenizer(), tokens);
  return tokens;
}

double seconds_of(int64_t frame) { return static_cast<double>(frame) / kMelFramesPerSecond; }

}  // namespace

float compression_ratio(const std::string& text) {
  if (text.empty()) return 1;
  uLongf size = compressBound(text.size());
  std::vector<Bytef> out(size);
  compress(out.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return static_cast<float>(text.size()) / static_cast<float>(size);
}

std::string Transcript::text() const {
  std::string all;
  for (const TranscribedSegment& segment : segments) all += segment.text;
  return all;
}

// How far a transcript has come. Windows begin at frame `seek`.
struct Transcriber::Progress {
  const MelSpectrogram& mel;
  Transcript& transcript;
  const TranscribeEvents& events;
  int64_t frames;  ///< of the sound, without silence behind it
  int64_t window;  ///< frames that the model hears at a time
  int64_t seek = 0;
  std::vector<int32_t> said;  ///< the prompt of the user, and all tokens so far
  size_t forgotten = 0;       ///< how many of them are no prompt any more
  double last_end = 0;        ///< of the last word, in seconds

  int64_t length() const { return std::min(window, frames - seek); }
};

Transcriber::Transcriber(const std::string& path, LoadOptions load, int32_t guesses)
    : keys_(std::make_shared<SpeechKeys>()),
      guesses_(guesses),
      model_(path, speech_load(std::move(load), keys_)),
      tokens_(found_tokens(model_, *keys_)),
      rules_(tokens_, *keys_),
      runner_(model_, {.sequences = 2 * guesses + 1, .snapshots = 0}),
      decoder_(runner_, tokens_, rules_),
      aligner_(runner_, tokens_, *keys_) {}

void Transcriber::check() const {
  for (const int32_t count : {options_.beams, options_.best_of})
    if (count < 1 || count > guesses_)
      throw Error(ErrorKind::kInput, "{} guesses are to be followed, expected 1 to {}", count,
                  guesses_);
  if (options_.temperatures.empty())
    throw Error(ErrorKind::kInput, "there is no temperature, expected one or more");
  for (const float temperature : options_.temperatures)
    if (!(temperature >= 0 && temperature <= 2))
      throw Error(ErrorKind::kInput, "a temperature is {}, expected 0 to 2", temperature);
  if (options_.words) aligner_.require_heads();
  if (tokens_.multilingual) return;
  if (options_.translate)
    throw Error(ErrorKind::kUnsupported, "{}: the model knows English alone and cannot translate",
                model_.path());
  if (!options_.language.empty() && language_code(options_.language) != "en")
    throw Error(ErrorKind::kUnsupported, "{}: the model knows English alone, not '{}'",
                model_.path(), printable(options_.language));
}

std::string Transcriber::text_of(std::span<const int32_t> tokens) const {
  std::vector<int32_t> text;
  for (const int32_t id : tokens)
    if (id < tokens_.end) text.push_back(id);
  return model_.tokenizer().decode(text);
}

MelSpectrogram Transcriber::listen(Sound& sound) {
  const SourceConfig& source = model_.config().source;
  MelSpectrogram mel(static_cast<int>(source.bands), model_.pool());
  mel.expect(std::max(sound.promised(), int64_t{2} * source.positions * kMelStep));
  std::vector<float> samples;
  while (sound.read(samples)) {
    mel.push(samples);
    samples.clear();
  }
  mel.finish(int64_t{2} * source.positions);
  return mel;
}

void Transcriber::choose_language(const MelSpectrogram& mel, Transcript& transcript) {
  transcript.language = "en";
  if (!tokens_.multilingual) return;
  if (!options_.language.empty()) {
    language_ = find_language(tokens_, options_.language).id;
  } else {
    const SourceConfig& source = model_.config().source;
    std::vector<float> features(static_cast<size_t>(2 * source.positions * source.bands));
    mel.window(0, int64_t{2} * source.positions, features);
    decoder_.hear(features);
    const std::vector<float> found = decoder_.languages();
    const auto best = std::ranges::max_element(found);
    language_ = tokens_.languages[static_cast<size_t>(best - found.begin())].id;
    transcript.language_probability = *best;
  }
  transcript.language = std::ranges::find(tokens_.languages, language_, &SpeechLanguage::id)->code;
}

std::vector<int32_t> Transcriber::start_tokens() const {
  if (!tokens_.multilingual) return {tokens_.start};
  return {tokens_.start, language_, options_.translate ? tokens_.translate : tokens_.transcribe};
}

std::vector<int32_t> Transcriber::prompt_of(const Progress& progress) const {
  std::vector<int32_t> prompt;
  const auto before = std::span(progress.said).subspan(progress.forgotten);
  const auto most = static_cast<size_t>(std::max(model_.config().context / 2 - 1, 0));
  if (!before.empty() && tokens_.previous >= 0) {
    prompt.push_back(tokens_.previous);
    const auto last = before.last(std::min(before.size(), most));
    prompt.insert(prompt.end(), last.begin(), last.end());
  }
  const std::vector<int32_t> start = start_tokens();
  prompt.insert(prompt.end(), start.begin(), start.end());
  if (!options_.times) prompt.push_back(tokens_.no_times);
  return prompt;
}

// At rising temperatures, until what is said neither repeats itself nor is too improbable. Silence
// need not be plausible.
WindowText Transcriber::decode_window(const Progress& progress, float& temperature,
                                      float& compression) {
  const std::vector<int32_t> prompt = prompt_of(progress);
  WindowOptions window{.beams = options_.beams,
                       .best_of = options_.best_of,
                       .most_tokens = std::max(model_.config().context / 2, 1),
                       .times = options_.times};
  WindowText said;
  for (const float next : options_.temperatures) {
    temperature = window.temperature = next;
    said = decoder_.decode(prompt, window);
    std::string text = text_of(said.tokens);
    text.erase(0, text.find_first_not_of(' '));
    compression = compression_ratio(text);
    const bool unlikely = said.mean_log_prob() < options_.least_log_prob;
    if (said.no_speech > options_.most_no_speech && unlikely) break;
    if (compression <= options_.most_compression && !unlikely) break;
  }
  return said;
}

// Nothing but zeros, or what is as quiet: what a model writes of it is made up.
bool Transcriber::is_silent(const Progress& progress) const {
  constexpr float kQuiet = -9;  // a tenth of a bit of 16
  for (int64_t i = 0; i < progress.length(); ++i)
    if (progress.mel.level(progress.seek + i) > kQuiet) return false;
  return true;
}

// Cuts what is said where two times stand side by side and moves on: to the last time, where the
// window ends within a piece (`goes_on`), else behind the window.
std::vector<TranscribedSegment> Transcriber::cut(Progress& progress, const WindowText& said,
                                                 TranscribedSegment common, bool& goes_on) const {
  const std::span<const int32_t> tokens(said.tokens);
  const auto is_time = [&](size_t i) { return tokens_.is_time(tokens[i]); };
  const double offset = seconds_of(progress.seek);
  const auto seconds = [&](int32_t id) {
    return seconds_of(progress.seek + 2 * int64_t{id - tokens_.first_time});
  };
  std::vector<TranscribedSegment> segments;
  const auto add = [&](double start, double end, std::span<const int32_t> part) {
    common.start = start, common.end = end;
    common.tokens.assign(part.begin(), part.end());
    common.text = text_of(part);
    segments.push_back(common);
  };
  std::vector<size_t> cuts;
  for (size_t i = 1; i < tokens.size(); ++i)
    if (is_time(i - 1) && is_time(i)) cuts.push_back(i);
  const size_t count = tokens.size();
  const bool ends_with_one = count >= 2 && !is_time(count - 2) && is_time(count - 1);
  goes_on = !ends_with_one;
  int64_t moved = progress.length();
  if (cuts.empty()) {
    double end = seconds_of(progress.seek + moved);
    const auto last = std::find_if(tokens.rbegin(), tokens.rend(),
                                   [&](int32_t id) { return tokens_.is_time(id); });
    if (last != tokens.rend() && *last != tokens_.first_time) end = seconds(*last);
    add(offset, end, tokens);
  } else {
    if (ends_with_one) cuts.push_back(count);
    size_t first = 0;
    for (const size_t cut : cuts) {
      const auto part = tokens.subspan(first, cut - first);
      add(seconds(part.front()), seconds(part.back()), part);
      first = cut;
    }
    if (const int64_t heard = int64_t{2} * (tokens[first - 1] - tokens_.first_time);
        !ends_with_one && heard > 0)
      moved = heard;
  }
  progress.seek += moved;
  return segments;
}

// Gives the segments of the window that begins at frame `begin` their words, and moves to the end
// of the last one, where the window ends within a piece.
void Transcriber::add_words(Progress& progress, std::vector<TranscribedSegment>& segments,
                            int64_t begin, bool goes_on) {
  std::vector<int32_t> text;
  std::vector<size_t> counts;
  for (const TranscribedSegment& segment : segments) {
    const size_t before = text.size();
    for (const int32_t id : segment.tokens)
      if (id < tokens_.end) text.push_back(id);
    counts.push_back(text.size() - before);
  }
  const int64_t frames = std::min(progress.window, progress.frames - begin);
  std::vector<SpokenWord> words = aligner_.align(decoder_.heard(), start_tokens(), text, frames / 2,
                                                 has_no_spaces(progress.transcript.language));
  const WordLengths lengths = word_lengths(words);
  shorten_at_sentences(words, lengths);
  merge_punctuation(words);
  const auto from_beginning = [&](double seconds) {
    return std::round((seconds_of(begin) + seconds) * 100) / 100;
  };
  size_t next = 0;
  double last_end = progress.last_end;
  std::optional<double> last;
  for (size_t i = 0; i < segments.size(); ++i) {
    TranscribedSegment& segment = segments[i];
    for (size_t taken = 0; next < words.size() && taken < counts[i]; ++next) {
      taken += words[next].tokens.size();
      SpokenWord& word = segment.words.emplace_back(std::move(words[next]));
      word.start = from_beginning(word.start);
      word.end = from_beginning(word.end);
    }
    if (segment.words.empty()) continue;
    fit_segment(segment.words, lengths, last_end, segment.start, segment.end);
    last_end = segment.end;
    last = segment.words.back().end;
  }
  if (!last) return;
  if (goes_on && *last > seconds_of(begin))
    progress.seek = std::llround(*last * kMelFramesPerSecond);
  progress.last_end = *last;
}

void Transcriber::take_window(Progress& progress, const WindowText& said,
                              const TranscribedSegment& common) {
  const int64_t begin = progress.seek;
  bool goes_on = false;
  std::vector<TranscribedSegment> segments = cut(progress, said, common, goes_on);
  if (options_.words) add_words(progress, segments, begin, goes_on);
  for (TranscribedSegment& segment : segments) {
    if (segment.start >= segment.end || segment.text.find_first_not_of(' ') == std::string::npos)
      continue;
    progress.said.insert(progress.said.end(), segment.tokens.begin(), segment.tokens.end());
    if (progress.events.segment) progress.events.segment(segment);
    progress.transcript.segments.push_back(std::move(segment));
  }
  if (!options_.carry || common.temperature > 0.5F) progress.forgotten = progress.said.size();
}

Transcript Transcriber::transcribe(Sound& sound, const TranscribeOptions& options,
                                   const TranscribeEvents& events) {
  options_ = options;
  check();
  decoder_.restart(options.seed);
  const SourceConfig& source = model_.config().source;
  const MelSpectrogram mel = listen(sound);
  Transcript transcript;
  transcript.damage = sound.damage();
  transcript.has_words = options.words;
  transcript.seconds = static_cast<double>(mel.samples()) / kSoundRate;
  Progress progress{.mel = mel,
                    .transcript = transcript,
                    .events = events,
                    .frames = mel.samples() / kMelStep,
                    .window = int64_t{2} * source.positions};
  if (progress.frames == 0) return transcript;
  choose_language(mel, transcript);
  if (!options_.prompt.empty())
    progress.said = model_.tokenizer().encode(" " + options_.prompt,
                                              {.add_special = false, .parse_special = false});
  std::vector<float> features(static_cast<size_t>(progress.window * source.bands));
  while (progress.seek < progress.frames) {
    if (events.progress) events.progress(seconds_of(progress.seek), transcript.seconds);
    if (is_silent(progress)) {
      progress.seek += progress.length();
      continue;
    }
    mel.window(progress.seek, progress.window, features);
    decoder_.hear(features);
    TranscribedSegment common;
    const WindowText said = decode_window(progress, common.temperature, common.compression);
    common.no_speech = said.no_speech;
    common.mean_log_prob = said.mean_log_prob();
    if (said.no_speech > options_.most_no_speech &&
        common.mean_log_prob <= options_.least_log_prob) {
      progress.seek += progress.length();
      continue;
    }
    take_window(progress, said, common);
  }
  return transcript;
}

}  // namespace veery
