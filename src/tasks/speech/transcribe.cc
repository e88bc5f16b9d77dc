#include "tasks/speech/transcribe.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "text/languages.h"

namespace veery {
namespace {

// A prompt is evaluated in one run.
constexpr int32_t kLongestPrompt = 448;

LoadOptions speech_load(LoadOptions load, std::shared_ptr<SpeechKeys> keys) {
  load.entry = [keys = std::move(keys)](ModelFile& file, const TransformerConfig& config) {
    Entry entry = transcribe_entry(file, config);
    *keys = read_speech_keys(file, config);
    return entry;
  };
  load.chunk = std::max(load.chunk, kLongestPrompt);
  // Every token reads the encoder's output: f16 has half of the bytes of f32 and is eight times as
  // precise as bf16.
  for (auto* type : {&load.cache_keys, &load.cache_values})
    if (!*type && !load.exact) *type = DType::kF16;
  return load;
}

// Finds the tokens and completes the keys.
SpeechTokens found_tokens(const Model& model, SpeechKeys& keys) {
  SpeechTokens tokens = find_speech_tokens(model.tokenizer(), keys, model.config());
  if (keys.usual) add_usual(keys, model.tokenizer(), tokens);
  return tokens;
}

SessionOptions session_options(Model& model, int32_t guesses, int32_t batch, bool reserve) {
  SessionOptions options{
      .sequences = WindowDecoder::sequences(batch, guesses), .sources = batch, .snapshots = 0};
  if (reserve) options.activations = measure_activations(model, options);
  return options;
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

// The state of a transcription. The next window begins at frame `seek`.
struct Transcriber::Progress {
  const MelSpectrogram& mel;
  Transcript& transcript;
  const TranscribeEvents& events;
  const KeptClock& clock;
  int64_t frames;   ///< of sound, without the padding after it
  int64_t longest;  ///< frames of a window
  int64_t seek = 0;
  std::vector<int32_t> said = {};  ///< the prompt of the user and all tokens so far
  size_t forgotten = 0;            ///< how many of them are no longer used as prompt
  double last_end = 0;             ///< of the last word, in seconds

  void report(int64_t frame) const {
    if (events.progress) events.progress(clock.whole(seconds_of(frame)), transcript.seconds);
  }
};

// A window of sound and its text.
struct Transcriber::Window {
  FrameRange range;
  size_t place = 0;  ///< index for WindowDecoder::encode()
  std::vector<int32_t> prompt = {};
  Random random = Random(0);
  WindowText said = {};
  float temperature = 0, compression = 0;
  bool whole = false;  ///< no part of it is decoded again

  int64_t length() const { return range.end - range.first; }
};

Transcriber::Transcriber(const std::string& path, LoadOptions load, int32_t guesses, int32_t batch,
                         bool reserve)
    : keys_(std::make_shared<SpeechKeys>()),
      guesses_(guesses),
      batch_(batch),
      model_(path, speech_load(std::move(load), keys_)),
      tokens_(found_tokens(model_, *keys_)),
      rules_(tokens_, *keys_),
      session_(model_, session_options(model_, guesses, batch, reserve)),
      decoder_(session_, tokens_, rules_, batch),
      aligner_(session_, tokens_, *keys_) {}

void Transcriber::check_voice() const {
  if (!options_.voice) return;
  const VoiceOptions& voice = *options_.voice;
  constexpr double kMost = 1e6;
  for (const auto& [name, value] : {std::pair{"threshold", voice.threshold},
                                    {"least speech", voice.least_speech},
                                    {"least silence", voice.least_silence},
                                    {"pad", voice.pad}})
    if (!(value >= 0 && value <= kMost))
      throw Error(ErrorKind::kInput, "voice activity: {} is {}, expected 0 to {}", name, value,
                  kMost);
}

void Transcriber::check() const {
  for (const int32_t count : {options_.beams, options_.best_of})
    if (count < 1 || count > guesses_)
      throw Error(ErrorKind::kInput, "found {} beams or samples, expected 1 to {}", count,
                  guesses_);
  if (options_.batch < 0 || options_.batch > batch_)
    throw Error(ErrorKind::kInput, "found a batch of {} windows, expected 0 to {}", options_.batch,
                batch_);
  check_voice();
  if (options_.temperatures.empty())
    throw Error(ErrorKind::kInput, "found no temperature, expected one or more");
  for (const float temperature : options_.temperatures)
    if (!(temperature >= 0 && temperature <= 2))
      throw Error(ErrorKind::kInput, "found a temperature of {}, expected 0 to 2", temperature);
  if (options_.words) aligner_.require_heads();
  if (tokens_.multilingual) return;
  if (options_.translate)
    throw Error(ErrorKind::kUnsupported, "{}: the model is English only and cannot translate",
                model_.path());
  if (!options_.language.empty() && language_code(options_.language) != "en")
    throw Error(ErrorKind::kUnsupported, "{}: the model is English only, found language '{}'",
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
  mel.expect(std::max(sound.declared(), int64_t{2} * source.positions * kMelStep));
  std::vector<float> samples;
  while (sound.read(samples)) {
    mel.push(samples);
    samples.clear();
  }
  mel.finish(int64_t{2} * source.positions);
  return mel;
}

// Removes the frames without speech. Returns the number of remaining frames.
int64_t Transcriber::keep_speech(MelSpectrogram& mel, int64_t frames, KeptClock& clock) const {
  if (!options_.voice) return frames;
  const std::vector<FrameRange> kept = find_speech(mel, frames, *options_.voice);
  mel.keep(kept, int64_t{2} * model_.config().source.positions);
  constexpr double kExact = 0.5;  // precision of the times of a model, in seconds
  clock = KeptClock(kept, options_.voice->pad + kExact);
  int64_t left = 0;
  for (const FrameRange& range : kept) left += range.end - range.first;
  return left;
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
    decoder_.encode(0, features);
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

// Whether the text is neither repetitive nor too improbable.
bool Transcriber::is_plausible(const Window& window) const {
  return window.compression <= options_.most_compression &&
         window.said.mean_log_prob() >= options_.least_log_prob;
}

// Whether the text is improbable and the sound is probably silence.
bool Transcriber::is_unspoken(const Window& window) const {
  return window.said.no_speech > options_.most_no_speech &&
         window.said.mean_log_prob() < options_.least_log_prob;
}

// Decodes at rising temperatures until the text is plausible or the window is silent.
void Transcriber::decode(std::span<Window> windows) {
  WindowOptions options{.beams = options_.beams,
                        .best_of = options_.best_of,
                        .most_tokens = std::max(model_.config().context / 2, 1),
                        .times = options_.times};
  std::vector<Window*> left;
  for (Window& window : windows) left.push_back(&window);
  for (const float temperature : options_.temperatures) {
    if (left.empty()) return;
    options.temperature = temperature;
    std::vector<WindowTask> tasks;
    for (Window* window : left) tasks.push_back({window->place, window->prompt, &window->random});
    std::vector<WindowText> texts = decoder_.decode(tasks, options);
    for (size_t i = 0; i < left.size(); ++i) {
      Window& window = *left[i];
      window.said = std::move(texts[i]);
      window.temperature = temperature;
      std::string text = text_of(window.said.tokens);
      text.erase(0, text.find_first_not_of(' '));
      window.compression = compression_ratio(text);
    }
    std::erase_if(
        left, [&](const Window* window) { return is_unspoken(*window) || is_plausible(*window); });
  }
}

// Whether a range is digital silence, for which models hallucinate text.
bool Transcriber::is_silent(const MelSpectrogram& mel, FrameRange range) const {
  constexpr float kQuiet = -9;  // about a tenth of the lowest bit of 16-bit samples
  for (int64_t t = range.first; t < range.end; ++t)
    if (mel.level(t) > kQuiet) return false;
  return true;
}

// Cuts the text into segments at pairs of time tokens and advances: to the last time token if the
// window ends within a segment (`goes_on`), else to the end of the window. In a window that is not
// decoded again, the text after the last time token is a segment too.
std::vector<TranscribedSegment> Transcriber::cut(Progress& progress, const Window& window,
                                                 bool& goes_on) const {
  const std::span<const int32_t> tokens(window.said.tokens);
  const auto is_time = [&](size_t i) { return tokens_.is_time(tokens[i]); };
  const int64_t begin = window.range.first;
  const auto seconds = [&](int32_t id) {
    return seconds_of(begin + 2 * int64_t{id - tokens_.first_time});
  };
  std::vector<TranscribedSegment> segments;
  const auto add = [&](double start, double end, std::span<const int32_t> part) {
    segments.push_back({.start = start,
                        .end = end,
                        .text = text_of(part),
                        .tokens = {part.begin(), part.end()},
                        .temperature = window.temperature,
                        .compression = window.compression,
                        .no_speech = window.said.no_speech,
                        .mean_log_prob = window.said.mean_log_prob()});
  };
  std::vector<size_t> cuts;
  for (size_t i = 1; i < tokens.size(); ++i)
    if (is_time(i - 1) && is_time(i)) cuts.push_back(i);
  const size_t count = tokens.size();
  const bool ends_with_one = count >= 2 && !is_time(count - 2) && is_time(count - 1);
  goes_on = options_.times && !ends_with_one && !window.whole;
  int64_t moved = window.length();
  if (cuts.empty()) {
    double end = seconds_of(window.range.end);
    const auto last = std::find_if(tokens.rbegin(), tokens.rend(),
                                   [&](int32_t id) { return tokens_.is_time(id); });
    if (last != tokens.rend() && *last != tokens_.first_time) end = seconds(*last);
    add(seconds_of(begin), end, tokens);
  } else {
    if (ends_with_one) cuts.push_back(count);
    size_t first = 0;
    for (const size_t cut : cuts) {
      const auto part = tokens.subspan(first, cut - first);
      add(seconds(part.front()), seconds(part.back()), part);
      first = cut;
    }
    if (window.whole && first < count)
      add(seconds(tokens[first]), seconds_of(window.range.end), tokens.subspan(first));
    if (const int64_t whole = int64_t{2} * (tokens[first - 1] - tokens_.first_time);
        goes_on && whole > 0)
      moved = whole;
  }
  progress.seek = begin + moved;
  return segments;
}

// Adds the words to the segments of a window. If the window ends within a segment, advances to the
// end of the last word.
void Transcriber::add_words(Progress& progress, std::vector<TranscribedSegment>& segments,
                            const Window& window, bool goes_on) {
  std::vector<int32_t> text;
  std::vector<size_t> counts;
  for (const TranscribedSegment& segment : segments) {
    const size_t before = text.size();
    for (const int32_t id : segment.tokens)
      if (id < tokens_.end) text.push_back(id);
    counts.push_back(text.size() - before);
  }
  std::vector<SpokenWord> words =
      aligner_.align(decoder_.encoded(window.place), start_tokens(), text, window.length() / 2,
                     has_no_spaces(progress.transcript.language));
  const WordLengths lengths = word_lengths(words);
  shorten_at_sentences(words, lengths);
  merge_punctuation(words);
  const double begin = seconds_of(window.range.first);
  const auto from_beginning = [&](double seconds) {
    return std::round((begin + seconds) * 100) / 100;
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
  if (goes_on && *last > begin) progress.seek = std::llround(*last * kMelFramesPerSecond);
  progress.last_end = *last;
}

void Transcriber::take_window(Progress& progress, const Window& window) {
  bool goes_on = false;
  std::vector<TranscribedSegment> segments = cut(progress, window, goes_on);
  std::erase_if(segments, [](const TranscribedSegment& segment) {
    return segment.text.find_first_not_of(' ') == std::string::npos;
  });
  // Segments with a duration by the time tokens are kept even if their words have none.
  std::vector<bool> lasts;
  for (const TranscribedSegment& segment : segments) lasts.push_back(segment.start < segment.end);
  if (options_.words) add_words(progress, segments, window, goes_on);
  for (size_t i = 0; i < segments.size(); ++i) {
    TranscribedSegment& segment = segments[i];
    if (!lasts[i] && segment.start >= segment.end) continue;
    progress.said.insert(progress.said.end(), segment.tokens.begin(), segment.tokens.end());
    const auto set = [&](auto& timed) {
      const TimeRange range = progress.clock.whole(TimeRange{timed.start, timed.end});
      timed.start = range.start, timed.end = range.end;
    };
    set(segment);
    for (SpokenWord& word : segment.words) set(word);
    if (progress.events.segment) progress.events.segment(segment);
    progress.transcript.segments.push_back(std::move(segment));
  }
  if (!options_.carry || window.temperature > 0.5F) progress.forgotten = progress.said.size();
}

// Decodes consecutive windows; each begins at the end of the last complete segment.
void Transcriber::follow_windows(Progress& progress) {
  const SourceConfig& source = model_.config().source;
  std::vector<float> features(static_cast<size_t>(progress.longest * source.bands));
  Random random(options_.seed);
  while (progress.seek < progress.frames) {
    progress.report(progress.seek);
    Window window{
        .range = {progress.seek, std::min(progress.seek + progress.longest, progress.frames)}};
    progress.seek = window.range.end;
    if (is_silent(progress.mel, window.range)) continue;
    progress.mel.window(window.range.first, progress.longest, features);
    decoder_.encode(0, features);
    window.prompt = prompt_of(progress);
    window.random = random;
    decode(std::span(&window, 1));
    random = window.random;
    if (!is_unspoken(window)) take_window(progress, window);
  }
}

// Decodes independent windows, several at a time.
void Transcriber::decode_batches(Progress& progress) {
  const SourceConfig& source = model_.config().source;
  std::vector<float> features(static_cast<size_t>(progress.longest * source.bands));
  const std::vector<int32_t> prompt = prompt_of(progress);
  std::vector<Window> windows;
  const auto flush = [&] {
    decode(windows);
    for (const Window& window : windows)
      if (!is_unspoken(window)) take_window(progress, window);
    windows.clear();
  };
  uint64_t index = 0;
  for (const FrameRange& range : quiet_windows(progress.mel, progress.frames, progress.longest)) {
    progress.report(range.first);
    ++index;
    if (is_silent(progress.mel, range)) continue;
    // Silences the frames of the next window.
    progress.mel.window(range.first, progress.longest, features);
    if (range.end < progress.frames)
      std::fill(features.begin() + (range.end - range.first) * source.bands, features.end(), 0.0F);
    decoder_.encode(windows.size(), features);
    windows.push_back({.range = range,
                       .place = windows.size(),
                       .prompt = prompt,
                       .random = Random(options_.seed, index << 32U),
                       .whole = true});
    if (std::ssize(windows) == options_.batch) flush();
  }
  flush();
}

Transcript Transcriber::transcribe(Sound& sound, const TranscribeOptions& options,
                                   const TranscribeEvents& events) {
  options_ = options;
  check();
  MelSpectrogram mel = listen(sound);
  Transcript transcript;
  transcript.damage = sound.damage();
  transcript.has_words = options.words;
  transcript.seconds = static_cast<double>(mel.samples()) / kSoundRate;
  KeptClock clock;
  const int64_t frames = keep_speech(mel, mel.samples() / kMelStep, clock);
  if (frames == 0) return transcript;
  Progress progress{.mel = mel,
                    .transcript = transcript,
                    .events = events,
                    .clock = clock,
                    .frames = frames,
                    .longest = int64_t{2} * model_.config().source.positions};
  choose_language(mel, transcript);
  if (!options_.prompt.empty())
    progress.said = model_.tokenizer().encode(" " + options_.prompt,
                                              {.add_special = false, .parse_special = false});
  if (options.batch > 0)
    decode_batches(progress);
  else
    follow_windows(progress);
  return transcript;
}

}  // namespace veery
