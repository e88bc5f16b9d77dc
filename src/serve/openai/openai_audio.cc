// POST /v1/audio/transcriptions, /v1/audio/translations
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/printable.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/event_stream.h"
#include "serve/api/fields.h"
#include "serve/http/multipart.h"
#include "serve/rules/groups.h"
#include "tasks/speech/subtitles.h"
#include "text/languages.h"

namespace veery::serve {
namespace {

enum class AudioForm { kJson, kVerbose, kText, kSrt, kVtt };

struct AudioRequest {
  Models::Lease model;
  std::string sound, file_name;
  TranscribeOptions options;
  AudioForm form = AudioForm::kJson;
  bool stream = false;
  bool segments = false;  ///< timestamp_granularities has "segment"
};

// Thrown by an event callback if the client is gone.
struct ClientGone {};

AudioForm form_of(const Fields& fields) {
  const std::string name = fields.text("response_format").value_or("json");
  if (name == "json") return AudioForm::kJson;
  if (name == "verbose_json") return AudioForm::kVerbose;
  if (name == "text") return AudioForm::kText;
  if (name == "srt") return AudioForm::kSrt;
  if (name == "vtt") return AudioForm::kVtt;
  fields.fail("response_format", "json, verbose_json, text, srt or vtt");
}

// Converts the text of a form field to JSON. A text that is not a number or flag remains a text,
// which is refused later.
Json field_json(const std::string& name, std::string_view text) {
  if (name == "stream" && (text == "true" || text == "false")) return text == "true";
  double number = 0;
  if (name == "temperature" &&
      std::from_chars(text.data(), text.data() + text.size(), number).ptr ==
          text.data() + text.size() &&
      !text.empty())
    return number;
  return std::string(text);
}

void read_temperature(const Fields& fields, TranscribeOptions& options) {
  const auto first = fields.number("temperature", 0, 1);
  if (!first) return;
  // The higher temperatures are fallbacks for implausible text.
  std::erase_if(options.temperatures, [&](float t) { return t <= *first; });
  options.temperatures.insert(options.temperatures.begin(), static_cast<float>(*first));
}

void read_granularity(const FormPart& part, AudioRequest& request) {
  if (part.body == "word")
    request.options.words = true;
  else if (part.body == "segment")
    request.segments = true;
  else
    throw ApiError(400,
                   fmt::format("timestamp_granularities has '{}', expected segment or word",
                               printable(part.body)),
                   part.name);
}

void read_chunking(const Fields& fields, TranscribeOptions& options) {
  const auto strategy = fields.text("chunking_strategy");
  if (!strategy) return;
  if (*strategy != "auto") fields.fail("chunking_strategy", "auto");
  options.voice = VoiceOptions{};
}

AudioRequest read_request(Context& context, const HttpRequest& http, Reply& reply, bool translate) {
  AudioRequest request;
  Json body = Json::object();
  const FormPart* file = nullptr;
  const std::vector<FormPart> parts = parse_form(http.header("content-type"), http.body);
  for (const FormPart& part : parts) {
    if (part.name == "file") {
      file = &part;
    } else if (part.name == "timestamp_granularities" || part.name == "timestamp_granularities[]") {
      read_granularity(part, request);
    } else {
      body[part.name] = field_json(part.name, part.body);
    }
  }
  Json named = Json::object();  // without the "[]" after the names of lists
  for (const auto& [name, value] : body.items())
    named[name.ends_with("[]") ? name.substr(0, name.size() - 2) : name] = value;
  apply_rules(named, reply, audio_rules());
  const Fields fields(body);
  request.model = context.models.find(fields.text("model").value_or(""));
  if (!request.model->transcribes())
    throw ApiError(400,
                   fmt::format("the model '{}' makes {}, expected transcripts", request.model->id(),
                               request.model->makes()),
                   "model");
  if (file == nullptr) throw ApiError(400, "file is missing, expected an audio file", "file");
  request.sound = std::string(file->body);
  request.file_name = file->file_name.empty() ? "file" : file->file_name;
  request.form = form_of(fields);
  if (request.options.words && request.form != AudioForm::kVerbose)
    throw ApiError(400, "timestamp_granularities has word, expected response_format verbose_json",
                   "timestamp_granularities");
  request.stream = fields.flag("stream").value_or(false);
  if (request.stream && request.form != AudioForm::kJson && request.form != AudioForm::kText)
    throw ApiError(400, "stream is true, expected response_format json or text", "stream");
  request.options.translate = translate;
  request.options.prompt = fields.text("prompt").value_or("");
  request.options.language = fields.text("language").value_or("");
  read_temperature(fields, request.options);
  read_chunking(fields, request.options);
  return request;
}

std::string without_edges(const std::string& text) {
  constexpr const char* kSpace = " \n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

Json audio_usage(const Transcript& transcript) {
  return {{"type", "duration"}, {"seconds", static_cast<int64_t>(std::ceil(transcript.seconds))}};
}

Json segments_json(const Transcript& transcript) {
  Json segments = Json::array();
  for (size_t i = 0; i < transcript.segments.size(); ++i) {
    const TranscribedSegment& s = transcript.segments[i];
    segments.push_back({{"id", i},
                        {"seek", static_cast<int64_t>(s.start * 100)},
                        {"start", s.start},
                        {"end", s.end},
                        {"text", s.text},
                        {"tokens", s.tokens},
                        {"temperature", s.temperature},
                        {"avg_logprob", s.mean_log_prob},
                        {"compression_ratio", s.compression},
                        {"no_speech_prob", s.no_speech}});
  }
  return segments;
}

Json words_json(const Transcript& transcript) {
  Json words = Json::array();
  for (const TranscribedSegment& segment : transcript.segments)
    for (const SpokenWord& word : segment.words)
      words.push_back(
          {{"word", without_edges(word.text)}, {"start", word.start}, {"end", word.end}});
  return words;
}

// Has segments if they are requested, or if words are not.
Json verbose_json(const AudioRequest& request, const Transcript& transcript) {
  Json json = {{"task", request.options.translate ? "translate" : "transcribe"},
               {"language", language_name(transcript.language)},
               {"duration", transcript.seconds},
               {"text", without_edges(transcript.text())},
               {"usage", audio_usage(transcript)}};
  if (request.options.words) json["words"] = words_json(transcript);
  if (request.segments || !request.options.words) json["segments"] = segments_json(transcript);
  return json;
}

void send(const AudioRequest& request, const Transcript& transcript, Reply& reply) {
  if (request.form == AudioForm::kVerbose)
    return reply.send(200, kJson, dump_json(verbose_json(request, transcript)));
  if (request.form == AudioForm::kJson)
    return reply.send(200, kJson,
                      dump_json({{"text", without_edges(transcript.text())},
                                 {"usage", audio_usage(transcript)}}));
  if (request.form == AudioForm::kText)
    return reply.send(200, "text/plain; charset=utf-8", without_edges(transcript.text()) + "\n");
  const auto form = request.form == AudioForm::kSrt ? TranscriptForm::kSrt : TranscriptForm::kVtt;
  TranscriptWriter writer(form);
  std::string text = writer.head();
  for (const TranscribedSegment& segment : transcript.segments) text += writer.part(segment);
  reply.send(200, form == TranscriptForm::kSrt ? "application/x-subrip" : "text/vtt", text);
}

void answer(Context& context, const HttpRequest& http, Reply& reply, bool translate) {
  AudioRequest request = read_request(context, http, reply, translate);
  Sound sound(std::move(request.sound), printable(request.file_name));
  EventStream events(reply);
  std::string all;
  const TranscribeEvents callbacks{
      .progress =
          [&](double, double) {
            if (reply.gone()) throw ClientGone();
          },
      .segment =
          [&](const TranscribedSegment& segment) {
            if (!request.stream) return;
            // The whole text equals its pieces, without spaces at its beginning.
            const std::string delta = all.empty() ? without_edges(segment.text) : segment.text;
            all += delta;
            events.data({{"type", "transcript.text.delta"}, {"delta", delta}});
            if (!events.alive()) throw ClientGone();
          }};
  try {
    const Transcript transcript = request.model->transcribe(sound, request.options, callbacks);
    if (!request.stream) return send(request, transcript, reply);
    events.data(
        {{"type", "transcript.text.done"}, {"text", all}, {"usage", audio_usage(transcript)}});
    events.end();
  } catch (const ClientGone&) {
    reply.end();
  }
}

}  // namespace

void transcriptions(Context& context, const HttpRequest& http, Reply& reply) {
  answer(context, http, reply, false);
}

void translations(Context& context, const HttpRequest& http, Reply& reply) {
  answer(context, http, reply, true);
}

}  // namespace veery::serve
