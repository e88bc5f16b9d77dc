// Embeddings, scores of documents, transcripts and profiles.
#include <algorithm>

#include "capi/handles.h"
#include "capi/results.h"
#include "capi/structures.h"
#include "engine/sequence_reader.h"

using namespace veery;
using namespace veery::capi;

struct veery_transcript {
  struct Word {
    size_t segment;
    const SpokenWord* word;
  };
  Transcript transcript;
  std::string text;
  std::vector<Word> words;
};

struct veery_profile {
  struct Row {
    std::string op, kernel, detail;
    std::vector<double> seconds;
    DispatchCost cost;
  };
  std::vector<Row> rows;
};

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// feed() fills the slots, which runs do not change: the plan can run again.
void profile(Model& model, int32_t rows, int32_t repetitions, veery_profile& into) {
  SequenceReader reader(model, rows);
  Plan& plan = reader.plan(rows);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < rows; ++i) ids.push_back(static_cast<int32_t>(i % model.config().vocab));
  reader.feed(ids);
  const RunSize size{.rows = rows, .context = rows};
  for (size_t i = 0; i < plan.table().size(); ++i) {
    const Label& label = plan.labels()[i];
    into.rows.push_back(
        {std::string(label.op), std::string(label.kernel), label.detail, {}, cost(plan, i, size)});
  }
  std::vector<double> seconds;
  for (int32_t run = 0; run < repetitions; ++run) {
    seconds.clear();
    plan.run_profiled(seconds);
    for (size_t i = 0; i < into.rows.size(); ++i) into.rows[i].seconds.push_back(seconds[i]);
  }
}

}  // namespace

veery_status veery_embed(veery_model* model, const char* const* texts, size_t count, float** values,
                         size_t* columns) {
  return guarded([&] {
    LoadedModel& loaded = *required(model, "model").loaded;
    required(values, "values") = nullptr;
    required(columns, "columns") = 0;
    loaded.require(Makes::kEmbeddings);
    std::vector<float> all;
    for (const TextEmbedding& one : loaded.embed(texts_of(texts, count, "texts"))) {
      if (one.rows != 1)
        throw Error(ErrorKind::kUnsupported, "{}: the model gives an embedding a token, not a text",
                    loaded.model().path());
      all.insert(all.end(), one.values.begin(), one.values.end());
    }
    size_t size = 0;
    give_array(all, values, &size);
    *columns = static_cast<size_t>(loaded.columns());
    return VEERY_OK;
  });
}

veery_status veery_rerank(veery_model* model, const char* query, const char* const* documents,
                          size_t count, float* scores) {
  return guarded([&] {
    LoadedModel& loaded = *required(model, "model").loaded;
    loaded.require(Makes::kScores);
    if (count > 0) required(scores, "scores");
    const std::vector<PairScore> found =
        loaded.rerank(required_text(query, "query"), texts_of(documents, count, "documents"));
    for (size_t i = 0; i < count; ++i) scores[i] = found[i].score;
    return VEERY_OK;
  });
}

static veery_transcribe_options default_transcribe_options() {
  const TranscribeOptions options;
  veery_transcribe_options result{};
  result.size = sizeof result;
  result.times = options.times ? 1 : 0;
  result.beams = options.beams;
  result.seed = options.seed;
  result.words = options.words ? 1 : 0;
  return result;
}

veery_status veery_transcribe_options_init(veery_transcribe_options* options, size_t size) {
  return guarded([&] {
    give_structure(options, size, default_transcribe_options(), "veery_transcribe_options");
    return VEERY_OK;
  });
}

veery_status veery_transcribe(veery_model* model, const char* path,
                              const veery_transcribe_options* options,
                              veery_transcript** transcript) {
  return guarded([&] {
    required(transcript, "transcript") = nullptr;
    LoadedModel& loaded = *required(model, "model").loaded;
    loaded.require(Makes::kTranscripts);
    const auto given =
        options_or(options, default_transcribe_options(), "veery_transcribe_options");
    TranscribeOptions wanted;
    if (given.language != nullptr) wanted.language = given.language;
    if (given.prompt != nullptr) wanted.prompt = given.prompt;
    wanted.translate = given.translate != 0;
    wanted.times = given.times != 0;
    wanted.beams = given.beams;
    wanted.seed = given.seed;
    wanted.words = given.words != 0;
    if (given.vad != 0) wanted.voice = VoiceOptions{};
    Sound sound(required_text(path, "path"));
    auto made = std::make_unique<veery_transcript>();
    made->transcript = loaded.transcribe(sound, wanted);
    made->text = made->transcript.text();
    const auto& segments = made->transcript.segments;
    for (size_t i = 0; i < segments.size(); ++i)
      for (const SpokenWord& word : segments[i].words) made->words.push_back({i, &word});
    *transcript = made.release();
    return VEERY_OK;
  });
}

void veery_transcript_free(veery_transcript* transcript) { delete transcript; }

const char* veery_transcript_text(const veery_transcript* transcript) {
  return transcript == nullptr ? "" : transcript->text.c_str();
}

const char* veery_transcript_language(const veery_transcript* transcript) {
  return transcript == nullptr ? "" : transcript->transcript.language.c_str();
}

size_t veery_transcript_count(const veery_transcript* transcript) {
  return transcript == nullptr ? 0 : transcript->transcript.segments.size();
}

veery_status veery_transcript_segment(const veery_transcript* transcript, size_t index,
                                      veery_segment* segment) {
  return guarded([&] {
    const auto& segments = required(transcript, "transcript").transcript.segments;
    if (index >= segments.size())
      throw Error(ErrorKind::kInput, "segment {} is not there, found {}", index, segments.size());
    const TranscribedSegment& found = segments[index];
    required(segment, "segment") = {found.start, found.end, found.text.c_str()};
    return VEERY_OK;
  });
}

size_t veery_transcript_word_count(const veery_transcript* transcript) {
  return transcript == nullptr ? 0 : transcript->words.size();
}

veery_status veery_transcript_word(const veery_transcript* transcript, size_t index,
                                   veery_word* word) {
  return guarded([&] {
    const auto& words = required(transcript, "transcript").words;
    if (index >= words.size())
      throw Error(ErrorKind::kInput, "word {} is not there, found {}", index, words.size());
    const SpokenWord& found = *words[index].word;
    required(word, "word") = {found.start, found.end, found.probability, found.text.c_str(),
                              words[index].segment};
    return VEERY_OK;
  });
}

veery_status veery_profile_step(veery_model* model, int32_t rows, int32_t repetitions,
                                veery_profile** given) {
  return guarded([&] {
    required(given, "profile") = nullptr;
    LoadedModel& loaded = *required(model, "model").loaded;
    loaded.require(Makes::kTexts);
    const LoadOptions& options = loaded.model().options();
    const int32_t most = std::min(options.chunk, options.context);
    if (rows < 1 || rows > most)
      throw Error(ErrorKind::kInput, "rows is {}, expected 1 to {}", rows, most);
    if (repetitions < 1 || repetitions > 100000)
      throw Error(ErrorKind::kInput, "repetitions is {}, expected 1 to 100000", repetitions);
    if (!options.backends.empty())
      throw Error(ErrorKind::kUnsupported, "a step can be profiled on the CPU only");
    auto made = std::make_unique<veery_profile>();
    if (!loaded.alone([&](Model& of) { profile(of, rows, repetitions, *made); }))
      throw Busy("the model has unfinished answers: read them to the end, or free them");
    *given = made.release();
    return VEERY_OK;
  });
}

void veery_profile_free(veery_profile* given) { delete given; }

size_t veery_profile_count(const veery_profile* given) {
  return given == nullptr ? 0 : given->rows.size();
}

veery_status veery_profile_get_row(const veery_profile* given, size_t index,
                                   veery_profile_row* row) {
  return guarded([&] {
    const auto& rows = required(given, "profile").rows;
    if (index >= rows.size())
      throw Error(ErrorKind::kInput, "row {} is not there, found {}", index, rows.size());
    const veery_profile::Row& found = rows[index];
    required(row, "row") = {found.op.c_str(),      found.kernel.c_str(), found.detail.c_str(),
                            median(found.seconds), found.cost.bytes(),   found.cost.flops};
    return VEERY_OK;
  });
}
