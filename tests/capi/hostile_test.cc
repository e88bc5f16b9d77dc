// Calls of the C interface with arguments at random: each ends with a status, and the model answers
// as before.
#include <gtest/gtest.h>
#include <veery/veery.h>

#include <cmath>
#include <veery/veery.hpp>

#include "base/random.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
constexpr const char* kMessages = R"([{"role": "user", "content": "hi"}])";

veery_load_options one_thread() {
  veery_load_options options = c::load_options();
  options.threads = 1;
  return options;
}

veery_generate_options two_tokens(const c::Model& model) {
  veery_generate_options options = model.generate_options();
  options.max_tokens = 2;
  options.temperature = 0;
  options.ignore_eos = 1;
  return options;
}

/// Random arguments: null pointers, counts, numbers outside of every enumeration, options of a
/// right or wrong size with random bytes. Errors that the library cannot detect (dangling pointers,
/// lengths beyond the text) are not among them.
class Hostile {
 public:
  Hostile(veery_model* model, uint64_t seed) : random_(seed), model_(model) {}

  bool chance(uint32_t one_in) { return random_.next() % one_in == 0; }
  template <typename T>
  T* maybe(T* pointer) {
    return chance(6) ? nullptr : pointer;
  }
  veery_model* model() { return maybe(model_); }
  int32_t number() {
    constexpr int32_t kNumbers[] = {INT32_MIN, -2, -1, 0,   1,       2,        3,
                                    5,         31, 64, 259, 1 << 20, INT32_MAX};
    return kNumbers[random_.next() % std::size(kNumbers)];
  }
  std::string text() {
    std::string text(random_.next() % 9, '\0');
    for (char& c : text)
      c = static_cast<char>(chance(2) ? 'a' + random_.next() % 26 : random_.next());
    return chance(3) ? text : chance(2) ? kMessages : R"({"type": "integer"})";
  }
  Ids ids() {
    Ids ids(random_.next() % 5);
    for (int32_t& id : ids) id = chance(4) ? number() : static_cast<int32_t>(random_.next() % 259);
    return ids;
  }
  /// As `init` fills it in, with some of its numbers from `number()`; pointers stay as they are.
  template <typename T>
  T spoiled(T options, std::initializer_list<int32_t T::*> numbers) {
    for (int32_t T::*member : numbers)
      if (chance(4)) options.*member = number();
    // A larger size than that of the memory cannot be noticed unless no structure has it.
    if (chance(6)) options.size = chance(2) ? 0 : static_cast<size_t>(number()) | 1;
    return options;
  }

 private:
  Random random_;
  veery_model* model_;
};

/// Counts what calls said: what was wrong, or that they worked. A bug of veery's fails the test.
struct Statuses {
  void operator()(veery_status status) {
    ASSERT_GE(status, VEERY_OK);
    ASSERT_LE(status, VEERY_TIMEOUT);
    ASSERT_NE(status, VEERY_ERROR_BUG) << veery_last_message();
    if (status >= VEERY_ERROR_INPUT && status <= VEERY_ERROR_BUSY) {
      ASSERT_STRNE(veery_last_message(), "");
      ++failed;
    } else {
      ++worked;
    }
  }
  int failed = 0, worked = 0;
};

void call_texts(Hostile& h, const std::string& text, const Ids& ids, Statuses& count) {
  int32_t* made_ids = nullptr;
  char* made_text = nullptr;
  size_t made = 0, other = 0;
  count(veery_tokenize(h.model(), text.data(), text.size(), h.number(), h.maybe(&made_ids), &made));
  count(
      veery_detokenize(h.model(), ids.data(), ids.size(), 0, h.maybe(&made_text), h.maybe(&other)));
  veery_free(made_ids);
  veery_free(std::exchange(made_text, nullptr));
  count(veery_apply_template(h.model(), h.maybe(text.c_str()), h.maybe("{}"), &made_text, nullptr));
  veery_free(made_text);
}

void call_answers(Hostile& h, const std::string& text, const Ids& ids,
                  const veery_generate_options& plain, Statuses& count) {
  using Generate = veery_generate_options;
  auto generate =
      h.spoiled(plain, {&Generate::top_k, &Generate::mirostat, &Generate::logprobs,
                        &Generate::priority, &Generate::repeat_last_n, &Generate::dry_last_n,
                        &Generate::ignore_eos, &Generate::dry_allowed_length});
  if (h.chance(3)) generate.temperature = h.chance(2) ? NAN : -INFINITY;
  if (h.chance(4)) generate.json_schema = text.c_str();
  if (h.chance(6)) generate.bias_count = 1;
  veery_answer *answer = nullptr, *chat = nullptr;
  count(veery_start(h.model(), ids.data(), ids.size(), h.maybe(&generate), &answer));
  count(veery_start_chat(h.model(), text.c_str(), &generate, h.maybe(&chat)));
  veery_piece piece{};
  count(veery_answer_next(h.maybe(answer), h.chance(2) ? 0 : NAN, h.maybe(&piece)));
  if (h.chance(2)) veery_answer_cancel(answer);
  if (answer != nullptr) count(veery_answer_wait(answer, nullptr, nullptr));
  veery_usage usage{};
  usage.size = h.chance(3) ? 3 : sizeof usage;
  count(veery_answer_get_usage(h.maybe(answer), h.maybe(&usage)));
  count(veery_answer_logprob(answer, static_cast<size_t>(h.number()), nullptr, nullptr, nullptr));
  char* message = nullptr;
  count(veery_answer_message(h.maybe(chat), h.maybe(&message), nullptr));
  veery_free(message);
  veery_answer_free(answer);
  veery_answer_free(chat);
}

void call_sessions(Hostile& h, const std::string& text, const Ids& ids, Statuses& count) {
  veery_session *session = nullptr, *fork = nullptr;
  count(veery_session_create(h.model(), h.maybe(&session)));
  count(veery_session_append(session, text.data(), text.size()));
  count(veery_session_append_ids(session, h.maybe(ids.data()), ids.size()));
  count(veery_session_cut(session, static_cast<size_t>(h.number())));
  count(veery_session_fork(h.maybe(session), &fork));
  count(veery_session_save(h.maybe(session), h.maybe("/no/such/folder/session")));
  veery_session* loaded = nullptr;
  count(veery_session_load(h.model(), h.maybe("/no/such/session"), h.maybe(&loaded)));
  EXPECT_EQ(loaded, nullptr);
  int32_t next[2];
  size_t made = 0;
  count(veery_session_chain(fork, h.maybe(next), h.chance(2) ? 2 : 0, h.maybe(&made)));
  veery_session_free(session);
  veery_session_free(fork);
}

void call_inspections(Hostile& h, const Ids& ids, Statuses& count) {
  using Inspect = veery_inspect_options;
  Inspect inspect{};
  count(veery_inspect_options_init(&inspect, h.chance(6) ? 5 : sizeof inspect));
  inspect = h.spoiled(inspect, {&Inspect::what, &Inspect::top});
  inspect.layer_count = h.chance(4) ? 3 : 0;
  veery_inspection* inspection = nullptr;
  count(veery_inspect(h.model(), ids.data(), ids.size(), &inspect, &inspection));
  veery_values values{};
  count(veery_inspection_get_values(inspection, static_cast<size_t>(h.number()), h.number(),
                                    &values));
  veery_inspection_free(inspection);
}

void call_others(Hostile& h, Statuses& count) {
  float* embedded = nullptr;
  size_t made = 0;
  count(veery_embed(h.model(), nullptr, static_cast<size_t>(h.number()), &embedded, &made));
  count(veery_rerank(h.model(), nullptr, nullptr, 1, nullptr));
  EXPECT_EQ(embedded, nullptr);
  veery_profile* profile = nullptr;
  count(veery_profile_step(h.model(), h.number(), h.chance(3) ? 0 : 1, h.maybe(&profile)));
  veery_profile_row row{};
  count(veery_profile_get_row(profile, static_cast<size_t>(h.number()), h.maybe(&row)));
  auto wrong = h.spoiled(one_thread(), {&veery_load_options::kind, &veery_load_options::chunk,
                                        &veery_load_options::slots, &veery_load_options::threads});
  wrong.size = h.chance(2) ? 7 : wrong.size;
  veery_model* none = nullptr;
  count(veery_model_load(h.maybe("/no/such"), &wrong, &none));
  EXPECT_EQ(none, nullptr);
  veery_profile_free(profile);
}

// Every call says what was wrong, or works; handles and outputs stay usable (sanitizers look on).
TEST(CApiMisuse, HostileArgumentsEndWithAStatus) {
  const test::TinyModel file{kTemplate};
  const veery_load_options one = one_thread();
  const c::Model model(file.path(), &one);
  const veery_generate_options options = two_tokens(model);
  const Ids first = model.start({256, 104}, &options).wait().ids();
  Statuses count;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Hostile h(model.get(), seed);
    const std::string text = h.text();
    const Ids ids = h.ids();
    call_texts(h, text, ids, count);
    call_answers(h, text, ids, options, count);
    call_sessions(h, text, ids, count);
    call_inspections(h, ids, count);
    call_others(h, count);
  }
  EXPECT_GT(count.failed, 1000);
  EXPECT_GT(count.worked, 500);
  EXPECT_EQ(model.start({256, 104}, &options).wait().ids(), first);
}

}  // namespace
}  // namespace veery
