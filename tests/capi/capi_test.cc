// The C interface gives what the engine gives, refuses what is wrong by name, and survives misuse.
#include <gtest/gtest.h>
#include <veery/veery.h>

#include <cmath>
#include <filesystem>
#include <thread>
#include <veery/veery.hpp>

#include "schedule/generate.h"
#include "support/models.h"
#include "support/one_sequence.h"
#include "support/temporary_folder.h"
#include "support/tiny_model.h"
#include "tasks/embed.h"
#include "tasks/inspect/inspect.h"
#include "tasks/speech/transcribe.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";
constexpr const char* kMessages = R"([{"role": "user", "content": "hi"}])";

veery_load_options one_thread() {
  veery_load_options options = c::load_options();
  options.threads = 1;
  return options;
}

class CApi : public ::testing::Test {
 protected:
  c::Model load() const {
    const veery_load_options options = one_thread();
    return c::Model(file_.path(), &options);
  }
  veery_generate_options options_of(const c::Model& model, int64_t tokens, float temperature,
                                    uint64_t seed = 0) const {
    veery_generate_options options = model.generate_options();
    options.max_tokens = tokens;
    options.temperature = temperature;
    options.seed = seed;
    options.ignore_eos = 1;
    return options;
  }
  Ids engine(const Ids& prompt, int64_t tokens, float temperature, uint64_t seed = 0) const {
    Model model(file_.path(), {.threads = 1});
    GenerateOptions options;
    options.sampling = recommended_sampling(model.file().metadata);
    options.max_tokens = tokens;
    options.sampling.temperature = temperature;
    options.sampling.seed = seed;
    options.ignore_eos = true;
    Scheduler scheduler(model, single_user());
    return generate(scheduler, {.prompt = prompt, .options = options}).ids;
  }

  test::TinyModel file_{kTemplate};
};

void expect_failure(veery_status got, veery_status expected, const std::string& part) {
  EXPECT_EQ(got, expected) << veery_last_message();
  EXPECT_NE(std::string(veery_last_message()).find(part), std::string::npos)
      << veery_last_message() << "\nexpected: " << part;
}

TEST_F(CApi, AnswersAreThoseOfTheEngineAlsoOnSeveralThreads) {
  const c::Model model = load();
  const Ids prompt = {256, 104, 105, 32};
  std::vector<Ids> got(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      const auto options = options_of(model, 20, i % 2 == 0 ? 0.0F : 1.0F, i);
      got[i] = model.start(prompt, &options).wait().ids();
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], engine(prompt, 20, i % 2 == 0 ? 0.0F : 1.0F, i)) << i;
}

TEST_F(CApi, PiecesAreTheTextAndScoresAreOfEachToken) {
  const c::Model model = load();
  auto options = options_of(model, 12, 0);
  options.logprobs = 2;
  std::string pieces;
  veery_answer* handle = nullptr;
  const auto add = [](void* user, const veery_piece* piece) -> int32_t {
    static_cast<std::string*>(user)->append(piece->text, piece->length);
    return 0;
  };
  ASSERT_EQ(veery_generate(model.get(), "hi", VEERY_NUL, &options, add, &pieces, &handle),
            VEERY_OK);
  const c::Answer answer(handle);
  EXPECT_EQ(pieces, answer.text());
  EXPECT_EQ(answer.ids(), engine({256, 104, 105}, 12, 0));
  const veery_usage usage = answer.usage();
  EXPECT_EQ(usage.finish, VEERY_FINISH_LENGTH);
  EXPECT_EQ(usage.prompt_tokens, 3U);
  EXPECT_EQ(usage.made_tokens, 12U);
  for (size_t i = 0; i < 12; ++i) {
    veery_token token{};
    const veery_token* top = nullptr;
    size_t count = 0;
    ASSERT_EQ(veery_answer_logprob(handle, i, &token, &top, &count), VEERY_OK);
    ASSERT_EQ(count, 2U);
    EXPECT_EQ(token.id, answer.ids()[i]);
    EXPECT_EQ(top[0].id, token.id);  // greedy
    EXPECT_EQ(top[0].logprob, token.logprob);
    EXPECT_GE(top[0].logprob, top[1].logprob);
  }
  veery_token token{};
  expect_failure(veery_answer_logprob(handle, 12, &token, nullptr, nullptr), VEERY_ERROR_INPUT,
                 "token 12 has no score, found those of 12");
}

TEST_F(CApi, CallbacksAndOtherThreadsEndAnswers) {
  const c::Model model = load();
  const auto options = options_of(model, -1, 0);
  veery_answer* handle = nullptr;
  const auto stop = [](void*, const veery_piece*) -> int32_t { return 1; };
  ASSERT_EQ(veery_generate(model.get(), "hi", VEERY_NUL, &options, stop, nullptr, &handle),
            VEERY_OK);
  const c::Answer stopped(handle);
  // The rest may have been made before the callback was asked.
  EXPECT_NE(stopped.usage().finish, VEERY_FINISH_NONE);
  c::Answer answer = model.start({256, 104}, &options);
  std::thread([&] { answer.cancel(); }).join();
  answer.wait();
  EXPECT_NE(answer.usage().finish, VEERY_FINISH_NONE);
}

TEST_F(CApi, HandlesAreFreedInAnyOrder) {
  auto model = std::make_unique<c::Model>(load());
  auto options = options_of(*model, 8, 0);
  auto session = std::make_unique<c::Session>(model->session());
  session->append("hi");
  c::Answer answer = session->go_on(&options);
  c::Answer unread = model->start({256, 104, 105}, &options);
  model.reset();
  session.reset();
  EXPECT_EQ(answer.wait().ids(), engine({256, 104, 105}, 8, 0));
}

TEST_F(CApi, SessionsGrowForkAndAreRefusedWhileTheyAreContinued) {
  const c::Model model = load();
  c::Session session = model.session();
  session.append("hi");
  const c::Session fork = session.fork();
  Ids expected = {256, 104, 105};
  Ids made(6);
  size_t count = 0;
  ASSERT_EQ(veery_session_chain(session.get(), made.data(), made.size(), &count), VEERY_OK);
  ASSERT_EQ(count, 6U);
  EXPECT_EQ(made, engine(expected, 6, 0));
  expected.insert(expected.end(), made.begin(), made.end());
  const auto options = options_of(model, 5, 0);
  c::Answer answer = session.go_on(&options);
  expect_failure(veery_session_append(session.get(), "x", 1), VEERY_ERROR_BUSY, "being continued");
  veery_profile* profile = nullptr;
  expect_failure(veery_profile_step(model.get(), 1, 1, &profile), VEERY_ERROR_BUSY,
                 "unfinished answers");
  answer.wait();
  EXPECT_EQ(answer.ids(), engine(expected, 5, 0));
  EXPECT_GE(answer.usage().reused_tokens, 3U);
  const auto ids_of = [](const c::Session& of) {
    int32_t* ids = nullptr;
    size_t size = 0;
    EXPECT_EQ(veery_session_ids(of.get(), &ids, &size), VEERY_OK);
    const c::Given<int32_t> owned(ids);
    return Ids(ids, ids + size);
  };
  EXPECT_EQ(ids_of(session).size(), 3U + 6 + 5);
  EXPECT_EQ(ids_of(fork), Ids({256, 104, 105}));
  EXPECT_EQ(veery_session_cut(session.get(), 3), VEERY_OK);
  EXPECT_EQ(ids_of(session), ids_of(fork));
  expect_failure(veery_session_cut(session.get(), 4), VEERY_ERROR_INPUT, "count is 4");
  const test::TemporaryFolder folder;
  const std::string path = folder.file("session");
  session.save(path);
  {
    const c::Model other(file_.path());
    const c::Session loaded = other.load_session(path);
    EXPECT_EQ(ids_of(loaded), ids_of(session));
  }
  expect_failure(veery_session_save(session.get(), nullptr), VEERY_ERROR_INPUT, "path");
  veery_session* none = nullptr;
  expect_failure(veery_session_load(model.get(), file_.path().c_str(), &none), VEERY_ERROR_FORMAT,
                 "is no saved session");
  // One that is given up leaves the session as it was.
  session.go_on(&options);
  EXPECT_EQ(ids_of(session), ids_of(fork));
}

TEST_F(CApi, ChatsAreRenderedAndTakenApart) {
  const c::Model model = load();
  char* text = nullptr;
  ASSERT_EQ(veery_apply_template(model.get(), kMessages, nullptr, &text, nullptr), VEERY_OK);
  EXPECT_STREQ(c::Given<char>(text).get(), "<s>[user]hi[assistant]");
  const auto options = options_of(model, 6, 0);
  c::Answer answer = model.chat(kMessages, &options);
  const Json message = parse_json(answer.wait().message(), "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(answer.usage().prompt_tokens, 1 + std::strlen("[user]hi[assistant]"));
  veery_answer* none = nullptr;
  expect_failure(veery_start_chat(model.get(), "[{}]", nullptr, &none), VEERY_ERROR_INPUT,
                 "message 0 has no role");
  expect_failure(veery_start_chat(model.get(), "[]", nullptr, &none), VEERY_ERROR_INPUT, "none");
  expect_failure(veery_start_chat(model.get(), "[\"\xff\"]", nullptr, &none), VEERY_ERROR_FORMAT,
                 "messages");
}

TEST_F(CApi, LabelsAreAsProbableAsTheirTokens) {
  const c::Model model = load();
  const char* labels[] = {"a", "abc", "zz"};
  float logprobs[3], probabilities[3];
  ASSERT_EQ(veery_classify(model.get(), "hi ", VEERY_NUL, labels, 3, logprobs, probabilities),
            VEERY_OK);
  Model reference(file_.path(), {.threads = 1});
  double sum = 0, all = 0;
  for (size_t i = 0; i < 3; ++i) {
    Ids ids = {256, 'h', 'i', ' '};
    const size_t shared = ids.size();
    for (const char* c = labels[i]; *c != 0; ++c) ids.push_back(*c);
    double expected = 0;
    test::OneSequence(reference).feed_all(
        ids, [&](int32_t position, std::span<const float> logits) {
          const auto next = static_cast<size_t>(position) + 1;
          if (next >= shared && next < ids.size())
            expected += logits[static_cast<size_t>(ids[next])] - log_sum_exp(logits);
        });
    EXPECT_NEAR(logprobs[i], expected, 1e-4) << labels[i];
    sum += probabilities[i];
    all += std::exp(logprobs[i]);
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_NEAR(probabilities[0], std::exp(logprobs[0]) / all, 1e-5);
  const char* empty[] = {"a", ""};
  expect_failure(veery_classify(model.get(), "hi", VEERY_NUL, empty, 2, logprobs, nullptr),
                 VEERY_ERROR_INPUT, "labels[1]: found no tokens that differ from the prompt");
}

TEST_F(CApi, StepsAreProfiledByRow) {
  const c::Model model = load();
  veery_profile* handle = nullptr;
  ASSERT_EQ(veery_profile_step(model.get(), 4, 3, &handle), VEERY_OK) << veery_last_message();
  const c::Owned<veery_profile, veery_profile_free> profile(handle);
  ASSERT_GT(veery_profile_count(handle), 5U);
  double seconds = 0, flops = 0;
  for (size_t i = 0; i < veery_profile_count(handle); ++i) {
    veery_profile_row row{};
    ASSERT_EQ(veery_profile_get_row(handle, i, &row), VEERY_OK);
    EXPECT_STRNE(row.op, "");
    seconds += row.seconds;
    flops += row.flops;
  }
  EXPECT_GT(seconds, 0);
  EXPECT_GT(flops, 0);
  expect_failure(veery_profile_step(model.get(), 0, 1, &handle), VEERY_ERROR_INPUT, "rows is 0");
  // The model answers as before.
  const auto options = options_of(model, 4, 0);
  EXPECT_EQ(model.start({256, 104}, &options).wait().ids(), engine({256, 104}, 4, 0));
}

TEST_F(CApi, InspectionsAreThoseOfTheEngineAlsoBesideAnswers) {
  const c::Model model = load();
  const Ids ids = {256, 104, 105, 32, 116};
  const auto running = options_of(model, 40, 0);
  c::Answer answer = model.start({256, 104}, &running);
  const int32_t layers[] = {1};
  veery_inspect_options options{};
  ASSERT_EQ(veery_inspect_options_init(&options, sizeof options), VEERY_OK);
  options.what = VEERY_INSPECT_ATTENTION | VEERY_INSPECT_QUERIES | VEERY_INSPECT_KEYS |
                 VEERY_INSPECT_HIDDEN | VEERY_INSPECT_LENS;
  options.top = 3;
  options.layers = layers;
  options.layer_count = 1;
  const c::Inspection found = model.inspect(ids, &options);
  EXPECT_EQ(answer.wait().ids(), engine({256, 104}, 40, 0));

  Model own(file_.path(), {.threads = 1});
  const Inspection expected =
      Inspector(own).run(ids, {.what = {true, true, true, true, true}, .layers = {1}, .top = 3});
  ASSERT_EQ(found.size(), 1U);
  const veery_inspected_layer layer = found.layer(0);
  EXPECT_EQ(layer.layer, 1);
  EXPECT_STREQ(layer.mixer, "attention");
  const LayerInspection& of = expected.layers[0];
  const auto is = [](const veery_values& values, const std::vector<float>& all) {
    const size_t count = values.sizes[0] * values.sizes[1] * values.sizes[2];
    return count == all.size() && std::equal(all.begin(), all.end(), values.data);
  };
  const veery_values maps = found.values(0, VEERY_INSPECT_ATTENTION);
  EXPECT_EQ(maps.sizes[0], layer.head_count);
  EXPECT_EQ(maps.sizes[1], ids.size());
  EXPECT_TRUE(is(maps, of.attention));
  EXPECT_TRUE(is(found.values(0, VEERY_INSPECT_QUERIES), of.queries));
  EXPECT_TRUE(is(found.values(0, VEERY_INSPECT_KEYS), of.keys));
  EXPECT_TRUE(is(found.values(0, VEERY_INSPECT_HIDDEN), of.hidden));
  veery_values embedding{}, final{};
  ASSERT_EQ(veery_inspection_get_ends(found.get(), &embedding, &final), VEERY_OK);
  EXPECT_TRUE(is(embedding, expected.embedding) && is(final, expected.final));
  const std::vector<veery_token> lens = found.lens(0, 4);
  ASSERT_EQ(lens.size(), 3U);
  EXPECT_EQ(lens[0].id, of.lens[12].id);
  EXPECT_FLOAT_EQ(lens[0].logprob, std::log(of.lens[12].probability));
}

TEST_F(CApi, InspectionsOfWhatIsNotThereAreRefused) {
  const c::Model model = load();
  const Ids ids = {256, 104, 105};
  veery_inspect_options options{};
  ASSERT_EQ(veery_inspect_options_init(&options, sizeof options), VEERY_OK);
  const c::Inspection found = model.inspect(ids, &options);
  veery_inspection* none = nullptr;
  const auto refused = [&](const std::string& part) {
    expect_failure(veery_inspect(model.get(), ids.data(), ids.size(), &options, &none),
                   VEERY_ERROR_INPUT, part);
    EXPECT_EQ(none, nullptr);
  };
  options.what = 64;
  refused("what is 64");
  options.what = VEERY_INSPECT_LENS;
  options.layer_count = 2;
  options.layers = nullptr;
  refused("layers is null");
  options.size = 1;
  refused("veery_inspect_options: its size is 1");
  expect_failure(veery_inspection_get_layer(found.get(), 99, nullptr), VEERY_ERROR_INPUT,
                 "layer 99");
  veery_values values{};
  expect_failure(veery_inspection_get_values(found.get(), 0, VEERY_INSPECT_LENS, &values),
                 VEERY_ERROR_INPUT, "part is 16");
}

TEST_F(CApi, TextsWithZerosAndBrokenUtf8GoThrough) {
  const c::Model model = load();
  const std::string text("a\0b\xff", 4);
  const Ids ids = model.tokenize(text);
  EXPECT_EQ(ids.size(), 5U);
  EXPECT_EQ(model.tokenize(text, false).size(), 4U);
  EXPECT_EQ(model.detokenize({'a', 0, 'b'}), std::string("a\0b", 3));
  char* out = nullptr;
  const int32_t outside = 259;
  EXPECT_EQ(veery_detokenize(model.get(), &outside, 1, 0, &out, nullptr), VEERY_ERROR_INPUT);
  EXPECT_EQ(out, nullptr);
}

TEST_F(CApi, NullAndWrongSizesAreRefusedByName) {
  const c::Model model = load();
  veery_model* no_model = nullptr;
  veery_answer* answer = nullptr;
  int32_t id = 3;
  size_t count = 0;
  expect_failure(veery_model_load(nullptr, nullptr, &no_model), VEERY_ERROR_INPUT, "path is null");
  expect_failure(veery_model_load("x", nullptr, nullptr), VEERY_ERROR_INPUT, "model is null");
  expect_failure(veery_model_load("/no/such.gguf", nullptr, &no_model), VEERY_ERROR_NOT_FOUND,
                 "/no/such.gguf");
  expect_failure(veery_start(nullptr, &id, 1, nullptr, &answer), VEERY_ERROR_INPUT, "model");
  expect_failure(veery_start(model.get(), nullptr, 1, nullptr, &answer), VEERY_ERROR_INPUT, "ids");
  expect_failure(veery_start(model.get(), &id, 1, nullptr, nullptr), VEERY_ERROR_INPUT, "answer");
  EXPECT_EQ(veery_start(model.get(), &id, 0, nullptr, &answer), VEERY_ERROR_INPUT);
  expect_failure(veery_tokenize(model.get(), nullptr, 3, 0, nullptr, &count), VEERY_ERROR_INPUT,
                 "ids is null");
  expect_failure(veery_answer_next(nullptr, 0, nullptr), VEERY_ERROR_INPUT, "piece");
  expect_failure(veery_session_append(nullptr, "", 0), VEERY_ERROR_INPUT, "session");
  expect_failure(veery_load_options_init(nullptr, 0), VEERY_ERROR_INPUT, "options is null");
  veery_load_options load = one_thread();
  expect_failure(veery_load_options_init(&load, 8), VEERY_ERROR_INPUT, "its size is 8, expected");
  load.size = 0;
  expect_failure(veery_model_load(file_.path().c_str(), &load, &no_model), VEERY_ERROR_INPUT,
                 "veery_load_options: its size is 0");
  veery_model_info info{};
  expect_failure(veery_model_get_info(model.get(), &info), VEERY_ERROR_INPUT, "veery_model_info");
  info.size = sizeof info;
  ASSERT_EQ(veery_model_get_info(model.get(), &info), VEERY_OK);
  EXPECT_EQ(info.kind, VEERY_KIND_TEXT);
  EXPECT_EQ(info.vocab, 259);
  EXPECT_EQ(info.context, 64);
  EXPECT_STREQ(veery_answer_text(nullptr, &count), "");
  EXPECT_EQ(veery_answer_ids(nullptr, &count), nullptr);
  veery_model_free(nullptr);
  veery_answer_free(nullptr);
  veery_answer_cancel(nullptr);
  veery_session_free(nullptr);
  veery_transcript_free(nullptr);
  veery_profile_free(nullptr);
  veery_inspection_free(nullptr);
  veery_free(nullptr);
  EXPECT_STREQ(veery_status_name(static_cast<veery_status>(99)), "unknown");
}

TEST_F(CApi, OptionsOutOfRangeAreNamed) {
  const c::Model model = load();
  const auto refused = [&](const std::string& part, auto&& change) {
    veery_generate_options options = options_of(model, 4, 1);
    change(options);
    veery_answer* answer = nullptr;
    const int32_t id = 3;
    expect_failure(veery_start(model.get(), &id, 1, &options, &answer), VEERY_ERROR_INPUT, part);
    EXPECT_EQ(answer, nullptr);
  };
  using Options = veery_generate_options;
  refused("temperature", [](Options& o) { o.temperature = -1; });
  refused("temperature", [](Options& o) { o.temperature = NAN; });
  refused("top", [](Options& o) { o.top_p = 2; });
  refused("mirostat", [](Options& o) { o.mirostat = 1; });
  refused("logprobs is -2", [](Options& o) { o.logprobs = -2; });
  refused("stops is null", [](Options& o) { o.stop_count = 1; });
  static const veery_bias outside{259, 1};
  refused("bias[0]", [](Options& o) { o.bias = &outside, o.bias_count = 1; });
  refused("found 2 of json_schema", [](Options& o) { o.regex = o.json_schema = "{}"; });
  veery_load_options load = one_thread();
  load.device = "tpu";
  veery_model* none = nullptr;
  expect_failure(veery_model_load(file_.path().c_str(), &load, &none), VEERY_ERROR_INPUT, "'tpu'");
  const Ids long_prompt(100, 3);
  veery_answer* answer = nullptr;
  expect_failure(veery_start(model.get(), long_prompt.data(), 100, nullptr, &answer),
                 VEERY_ERROR_LIMIT, "64");
}

TEST_F(CApi, MessagesBelongToTheirThread) {
  veery_model* model = nullptr;
  expect_failure(veery_model_load("/no/a", nullptr, &model), VEERY_ERROR_NOT_FOUND, "/no/a");
  std::thread([] {
    EXPECT_STREQ(veery_last_message(), "");
    veery_model* other = nullptr;
    expect_failure(veery_model_load("/no/b", nullptr, &other), VEERY_ERROR_NOT_FOUND, "/no/b");
  }).join();
  EXPECT_NE(std::string(veery_last_message()).find("/no/a"), std::string::npos);
}

TEST_F(CApi, EmbeddingsAndScoresAreThoseOfTheEngine) {
  const veery_load_options options = one_thread();
  const c::Model model(test::fixture_path("encoders/bert-mean"), &options);
  const char* texts[] = {"a thrush", "what is a bird"};
  float* values = nullptr;
  size_t columns = 0;
  ASSERT_EQ(veery_embed(model.get(), texts, 2, &values, &columns), VEERY_OK);
  const c::Given<float> owned(values);
  Embedder embedder(test::fixture_path("encoders/bert-mean"), {.threads = 1});
  const auto expected = embedder.embed(std::vector<std::string>{texts[0], texts[1]});
  ASSERT_EQ(columns, expected[0].values.size());
  for (size_t i = 0; i < 2 * columns; ++i)
    EXPECT_EQ(values[i], expected[i / columns].values[i % columns]);
  veery_answer* answer = nullptr;
  expect_failure(veery_start(model.get(), nullptr, 0, nullptr, &answer), VEERY_ERROR_UNSUPPORTED,
                 "the model makes embeddings, expected one that makes texts");
  const c::Model ranker(test::fixture_path("encoders/bert-rerank"), &options);
  float scores[2];
  ASSERT_EQ(veery_rerank(ranker.get(), "what is a thrush", texts, 2, scores), VEERY_OK);
  Reranker reranker(test::fixture_path("encoders/bert-rerank"), {.threads = 1});
  const auto pairs =
      reranker.score("what is a thrush", std::vector<std::string>{texts[0], texts[1]});
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(scores[i], pairs[i].score);
}

TEST_F(CApi, SoundIsTranscribedAsByTheEngine) {
  const veery_load_options options = one_thread();
  const std::string folder = test::fixture_path("whisper/a");
  const std::string clip = test::fixture_path("whisper/tone.flac");
  const c::Model model(folder, &options);
  veery_transcribe_options wanted;
  ASSERT_EQ(veery_transcribe_options_init(&wanted, sizeof wanted), VEERY_OK);
  wanted.seed = 1;
  veery_transcript* handle = nullptr;
  ASSERT_EQ(veery_transcribe(model.get(), clip.c_str(), &wanted, &handle), VEERY_OK)
      << veery_last_message();
  const c::Owned<veery_transcript, veery_transcript_free> owned(handle);
  Transcriber transcriber(folder, {.threads = 1});
  Sound sound(clip);
  const Transcript expected = transcriber.transcribe(sound, {.seed = 1});
  EXPECT_EQ(veery_transcript_text(handle), expected.text());
  EXPECT_EQ(veery_transcript_language(handle), expected.language);
  EXPECT_EQ(veery_transcript_count(handle), expected.segments.size());
  EXPECT_EQ(veery_transcript_word_count(handle), 0U);
  wanted.words = 1;
  veery_transcript* timed = nullptr;
  ASSERT_EQ(veery_transcribe(model.get(), clip.c_str(), &wanted, &timed), VEERY_OK);
  const c::Owned<veery_transcript, veery_transcript_free> owned_too(timed);
  Sound again(clip);
  const Transcript words = transcriber.transcribe(again, {.words = true, .seed = 1});
  size_t next = 0;
  veery_word word;
  for (size_t i = 0; i < words.segments.size(); ++i)
    for (const SpokenWord& one : words.segments[i].words) {
      ASSERT_EQ(veery_transcript_word(timed, next++, &word), VEERY_OK);
      EXPECT_EQ(word.text, one.text);
      EXPECT_EQ(word.start, one.start);
      EXPECT_EQ(word.end, one.end);
      EXPECT_EQ(word.segment, i);
    }
  EXPECT_GT(next, 0U);
  EXPECT_EQ(veery_transcript_word_count(timed), next);
  expect_failure(veery_transcript_word(timed, next, &word), VEERY_ERROR_INPUT, "word");
  wanted.vad = 1;
  veery_transcript* spoken = nullptr;
  ASSERT_EQ(veery_transcribe(model.get(), clip.c_str(), &wanted, &spoken), VEERY_OK);
  const c::Owned<veery_transcript, veery_transcript_free> owned_last(spoken);
  Sound once_more(clip);
  EXPECT_EQ(veery_transcript_text(spoken),
            transcriber.transcribe(once_more, {.words = true, .seed = 1, .voice = VoiceOptions{}})
                .text());
  expect_failure(veery_transcribe(model.get(), "/no/a.wav", nullptr, &handle),
                 VEERY_ERROR_NOT_FOUND, "/no/a.wav");
}

TEST_F(CApi, AModelWhoseFileShrinksFailsAndTheHostGoesOn) {
  const c::Model model = load();
  veery_answer* answer = nullptr;
  const veery_generate_options options = options_of(model, 5, 0);
  std::filesystem::resize_file(file_.path(), 4096);
  expect_failure(veery_generate(model.get(), "hi", 2, &options, nullptr, nullptr, &answer),
                 VEERY_ERROR_IO, "shrank while it was in use: found 4096 bytes, expected");
  EXPECT_EQ(answer, nullptr);
  veery_model* again = nullptr;
  const veery_load_options one = one_thread();
  EXPECT_NE(veery_model_load(file_.path().c_str(), &one, &again), VEERY_OK);
}

}  // namespace
}  // namespace veery
