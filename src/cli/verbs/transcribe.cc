// transcribe.cc: `veery transcribe`.
#include "tasks/speech/transcribe.h"

#include <charconv>
#include <filesystem>

#include "base/clock.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/args/arguments.h"
#include "cli/args/choice.h"
#include "cli/args/input.h"
#include "cli/args/model_arguments.h"
#include "cli/args/output_flags.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/verbs/verbs.h"
#include "file/output/pending_file.h"
#include "tasks/speech/subtitles.h"
#include "text/languages.h"

namespace veery::cli {
namespace {

constexpr FileKind kSoundStream{"a sound on standard input", 4000 * kMB, false};

struct Flags {
  ModelArguments common;
  OutputFlags output_flags;
  TranscribeOptions options;
  TranscriptForm form = TranscriptForm::kText;
  std::vector<std::string> words;
  std::string sound, output, temperatures;
  std::optional<TranscriptForm> wanted_form;  ///< of --to; absent: by the name of `output`
  double most_compression = 2.4, least_log_prob = -1, most_no_speech = 0.6;
  int64_t seed = 0;
  VoiceOptions voice;
  bool vad = false;
  bool no_times = false, no_carry = false, quiet = false;
  bool highlight = false;
};

std::vector<float> parse_temperatures(const std::string& text) {
  std::vector<float> found;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    float value = 0;
    const auto [next, error] = std::from_chars(text.data() + at, text.data() + end, value);
    if (error != std::errc() || next != text.data() + end || !(value >= 0 && value <= 2))
      throw Misuse("--temperatures",
                   fmt::format("found '{}', expected numbers from 0 to 2 such as 0,0.4", text));
    found.push_back(value);
    at = end + 1;
  }
  return found;
}

std::vector<std::string> language_codes() {
  std::vector<std::string> codes;
  for (const Language& language : languages()) codes.emplace_back(language.code);
  return codes;
}

void add_decoding(Arguments& app, Flags& flags) {
  TranscribeOptions& options = flags.options;
  app.option("--beams", options.beams, "Beams of beam search")
      .type_name("N")
      .whole_number(1, 64)
      .show_default();
  app.option("--best-of", options.best_of,
             "Samples at temperatures above 0; the most probable is kept")
      .type_name("N")
      .whole_number(1, 64)
      .show_default();
  app.option("--temperatures", flags.temperatures,
             "Temperatures to try until a text is not rejected [0,0.2,0.4,0.6,0.8,1]")
      .type_name("LIST");
  app.option("--compression-threshold", flags.most_compression,
             "Reject text that zlib compresses by more than this factor (repetition)")
      .type_name("X")
      .real_number(0, 1000)
      .show_default();
  app.option("--logprob-threshold", flags.least_log_prob,
             "Reject text with a lower mean log probability than this")
      .type_name("X")
      .real_number(-1000, 0)
      .show_default();
  app.option("--no-speech-threshold", flags.most_no_speech,
             "Treat rejected text as silence if silence is more probable than this")
      .type_name("P")
      .real_number(0, 1)
      .show_default();
  app.option("-s,--seed", flags.seed, "Random seed for temperatures above 0")
      .type_name("N")
      .whole_number(0, int64_t{1} << 53)
      .show_default();
}

void add_voice(Arguments& app, Flags& flags) {
  VoiceOptions& voice = flags.voice;
  app.flag("--vad", flags.vad, "Transcribe only parts with speech (voice activity detection)");
  app.option("--vad-threshold", voice.threshold,
             "Mean log likelihood ratio of speech to noise that counts as speech")
      .type_name("X")
      .real_number(0, 1000)
      .show_default();
  app.option("--vad-min-speech", voice.least_speech, "Ignore speech shorter than this")
      .type_name("SECONDS")
      .real_number(0, 1000)
      .show_default();
  app.option("--vad-min-silence", voice.least_silence, "Bridge pauses shorter than this")
      .type_name("SECONDS")
      .real_number(0, 1000)
      .show_default();
  app.option("--vad-pad", voice.pad, "Padding before and after speech")
      .type_name("SECONDS")
      .real_number(0, 1000)
      .show_default();
}

void read_flags(Flags& flags, std::vector<std::string> arguments) {
  Arguments app("transcribe",
                "Transcribes the speech of a sound file, with time stamps. Needs a Whisper model.",
                "  veery transcribe whisper-small talk.mp3\n"
                "  veery transcribe whisper-small talk.flac -o talk.srt\n"
                "  ffmpeg -i talk.mp4 -f wav - | veery transcribe whisper-small - --to json\n"
                "  veery transcribe whisper-small rede.ogg --language de --translate");
  flags.common.add_path(app);
  app.take_words("FILE", flags.words,
                 "WAV, FLAC, Ogg, MP3, AIFF or another format of libsndfile; -: standard input")
      .files({"wav", "flac", "ogg", "oga", "opus", "mp3", "aiff", "aif", "au", "caf", "w64"});
  add_choice<TranscriptForm>(app, "--to", flags.wanted_form,
                             "Format: txt, srt, vtt, tsv, json [by the name of -o, else txt]",
                             {{"txt", TranscriptForm::kText},
                              {"srt", TranscriptForm::kSrt},
                              {"vtt", TranscriptForm::kVtt},
                              {"tsv", TranscriptForm::kTsv},
                              {"json", TranscriptForm::kJson}})
      .type_name("FORMAT");
  app.option("-o,--output", flags.output, "Write to FILE instead of standard output")
      .type_name("FILE")
      .files({"txt", "srt", "vtt", "tsv", "json"});
  app.option("-l,--language", flags.options.language,
             "Spoken language: en, english, de ... [detected]")
      .type_name("NAME")
      .choices(language_codes());
  app.flag("--translate", flags.options.translate, "Translate to English");
  app.option("-p,--prompt", flags.options.prompt,
             "Text that precedes the speech, as a guide to names and spelling")
      .type_name("TEXT");
  app.flag("--no-timestamps", flags.no_times,
           "Write each window of 30 s as one segment, without times");
  app.flag("--word-timestamps", flags.options.words, "Add the times of each word (json)");
  app.flag("--highlight-words", flags.highlight,
           "Write one cue per word, underlined (srt, vtt); implies --word-timestamps");
  app.flag("--no-carry", flags.no_carry,
           "Transcribe each window without the text of earlier ones as context");
  app.option(
         "--batch", flags.options.batch,
         "Decode N independent windows together: faster for long files\n[off: one after the other]")
      .type_name("N")
      .whole_number(1, 64);
  add_decoding(app, flags);
  add_voice(app, flags);
  app.flag("-q,--quiet", flags.quiet, "Print only errors on standard error");
  flags.common.add_threads(app);
  flags.common.add_exact(app);
  flags.common.add_cache_types(app);
  flags.output_flags.add(app, "Replace the output file if it exists");
  flags.common.add_json(app, "Same as --to json");
  app.read(std::move(arguments));
  if (flags.words.empty() || flags.words[0].empty())
    throw Misuse("missing FILE, expected a sound file or - for standard input");
  if (flags.words.size() > 1)
    throw Misuse(fmt::format("unknown argument '{}': expected one sound file", flags.words[1]));
  flags.sound = flags.words[0];
}

TranscriptForm form_of(const Flags& flags) {
  if (flags.common.json) return TranscriptForm::kJson;
  if (flags.wanted_form) return *flags.wanted_form;
  const std::string end = std::filesystem::path(flags.output).extension().string();
  return transcript_form(end.empty() ? end : end.substr(1)).value_or(TranscriptForm::kText);
}

void settle(Flags& flags) {
  TranscribeOptions& options = flags.options;
  if (!flags.temperatures.empty()) options.temperatures = parse_temperatures(flags.temperatures);
  options.most_compression = static_cast<float>(flags.most_compression);
  options.least_log_prob = static_cast<float>(flags.least_log_prob);
  options.most_no_speech = static_cast<float>(flags.most_no_speech);
  options.seed = static_cast<uint64_t>(flags.seed);
  options.times = !flags.no_times;
  options.carry = !flags.no_carry;
  if (flags.vad) options.voice = flags.voice;
  flags.form = form_of(flags);
  if (!flags.highlight) return;
  if (flags.form != TranscriptForm::kSrt && flags.form != TranscriptForm::kVtt)
    throw Misuse("--highlight-words", "needs --to srt or vtt");
  options.words = true;
}

std::unique_ptr<Sound> open_sound(const std::string& path) {
  if (path != "-") return std::make_unique<Sound>(path);
  return std::make_unique<Sound>(read_standard_input(kSoundStream), "standard input");
}

// Writes segments to standard output as they come, or to a file that appears when it is complete.
class Writer {
 public:
  explicit Writer(const Flags& flags) : writer_(flags.form, flags.highlight) {
    if (!flags.output.empty())
      file_ = std::make_unique<PendingFile>(
          flags.output, OutputRules{flags.output_flags.existing(),
                                    {flags.common.path, flags.sound == "-" ? "" : flags.sound},
                                    nullptr});
    write(writer_.head());
  }
  void segment(const TranscribedSegment& segment) {
    write(writer_.part(segment));
    if (!file_) standard_output().flush();
  }
  void finish(const Transcript& transcript) {
    write(writer_.tail(transcript));
    if (file_) file_->commit();
  }

 private:
  void write(const std::string& text) {
    if (text.empty()) return;
    if (file_)
      file_->write(text.data(), text.size());
    else
      standard_output().untrusted(text);
  }

  TranscriptWriter writer_;
  std::unique_ptr<PendingFile> file_;
};

}  // namespace

void transcribe_verb(std::vector<std::string> arguments) {
  Flags flags;
  read_flags(flags, std::move(arguments));
  settle(flags);
  if (!flags.output.empty())
    flags.output_flags.check(flags.output,
                             {flags.common.path, flags.sound == "-" ? "" : flags.sound});
  const std::unique_ptr<Sound> sound = open_sound(flags.sound);
  Progress loading("loading");
  Transcriber transcriber(flags.common.path, flags.common.load_options(loading, {}),
                          std::max(flags.options.beams, flags.options.best_of),
                          std::max(flags.options.batch, 1));
  loading.clear();
  Writer writer(flags);
  Progress bar("transcribing");
  const double start = seconds_now();
  const TranscribeEvents events{.progress = [&](double done, double all) { bar.show(done, all); },
                                .segment =
                                    [&](const TranscribedSegment& segment) {
                                      bar.clear();
                                      writer.segment(segment);
                                    }};
  const Transcript transcript = transcriber.transcribe(*sound, flags.options, events);
  bar.clear();
  writer.finish(transcript);
  if (!transcript.damage.empty())
    write_error(fmt::format("veery: warning: {}\n", escaped(transcript.damage)));
  const double seconds = seconds_now() - start;
  if (!flags.quiet && seconds > 0)
    write_error(fmt::format("veery: {:.1f} s of sound in {:.1f} s, {:.1f} times as fast\n",
                            transcript.seconds, seconds, transcript.seconds / seconds));
}

}  // namespace veery::cli
