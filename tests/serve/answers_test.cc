// The answers of all APIs: streams equal whole replies, clients that leave end their answers, and
// errors end a stream in the form of its API.
#include "serve/api/answers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <thread>

#include "serve/http/kept_reply.h"
#include "serve/service.h"
#include "support/tiny_model.h"
#include "text/grammar/grammar.h"

namespace veery::serve {
namespace {

constexpr int64_t kTokens = 12, kManyTokens = 3000;
constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]";

/// The contents of a reply that all APIs have, by the index of the answer.
struct Contents {
  std::map<int64_t, std::string> texts, ends;
  std::map<int64_t, size_t> scores;
  int64_t prompt = 0, made = 0;
  RequestRecord record;

  size_t all_scores() const {
    return std::accumulate(scores.begin(), scores.end(), size_t{0},
                           [](size_t sum, const auto& one) { return sum + one.second; });
  }
};

using Read = void (*)(const Json& json, Contents& contents);

struct Api {
  const char* name;
  const char* path;
  Json body;
  std::vector<std::string> length;  ///< path of the field
  std::string count;                ///< the field of n; empty: there is one answer
  Json scores;                      ///< fields that request log-probabilities, or null
  Json usage;                       ///< fields that request the usage of a stream
  Read whole, event;                ///< reads a whole body, adds an event

  Json request(int64_t answers, int64_t tokens, bool stream) const {
    Json json = body;
    json["stream"] = stream;
    Json* at = &json;
    for (const std::string& member : length) at = &(*at)[member];
    *at = tokens;
    if (!count.empty()) json[count] = answers;
    return json;
  }
  int64_t most() const { return count.empty() ? 1 : 3; }
};

size_t size_of(const Json& json, const char* member) {
  const Json* found = json.is_object() ? json.member(member) : nullptr;
  return found == nullptr ? 0 : found->size();
}

void add_text(const Json& json, const char* member, std::string& text) {
  const Json* found = json.member(member);
  if (found != nullptr && found->is_string()) text += found->string();
}

void read_openai_usage(const Json& json, Contents& contents) {
  const Json* usage = json.member("usage");
  if (usage == nullptr || usage->is_null()) return;
  contents.prompt = (*usage)["prompt_tokens"].get<int64_t>();
  contents.made = (*usage)["completion_tokens"].get<int64_t>();
}

// Reads choices of chat completions, "message" or "delta", and of completions.
void read_choices(const Json& json, Contents& contents) {
  for (const Json& choice : json["choices"]) {
    const auto index = choice["index"].get<int64_t>();
    for (const char* part : {"message", "delta"})
      if (const Json* found = choice.member(part))
        add_text(*found, "content", contents.texts[index]);
    add_text(choice, "text", contents.texts[index]);
    if (choice["finish_reason"].is_string())
      contents.ends[index] = choice["finish_reason"].string();
    contents.scores[index] += size_of(choice["logprobs"], "content");
    contents.scores[index] += size_of(choice["logprobs"], "tokens");
  }
  read_openai_usage(json, contents);
}

void read_response(const Json& json, Contents& contents) {
  contents.ends[0] = json["status"].string();
  contents.prompt = json["usage"]["input_tokens"].get<int64_t>();
  contents.made = json["usage"]["output_tokens"].get<int64_t>();
}
void read_whole_response(const Json& json, Contents& contents) {
  for (const Json& item : json["output"])
    for (const Json& part : item["content"]) {
      contents.texts[0] += part["text"].string();
      contents.scores[0] += size_of(part, "logprobs");
    }
  read_response(json, contents);
}
void read_response_event(const Json& json, Contents& contents) {
  const std::string& type = json["type"].string();
  if (type == "response.output_text.delta") {
    contents.texts[0] += json["delta"].string();
    contents.scores[0] += size_of(json, "logprobs");
  }
  if (type == "response.completed" || type == "response.incomplete")
    read_response(json["response"], contents);
}

void read_message_end(const Json& json, const Json& usage, Contents& contents) {
  contents.ends[0] = json["stop_reason"].string();
  contents.prompt =
      usage["input_tokens"].get<int64_t>() + usage["cache_read_input_tokens"].get<int64_t>();
  contents.made = usage["output_tokens"].get<int64_t>();
}
void read_whole_message(const Json& json, Contents& contents) {
  for (const Json& block : json["content"]) contents.texts[0] += block["text"].string();
  read_message_end(json, json["usage"], contents);
}
void read_message_event(const Json& json, Contents& contents) {
  const std::string& type = json["type"].string();
  if (type == "content_block_delta") contents.texts[0] += json["delta"]["text"].string();
  if (type == "message_delta") read_message_end(json["delta"], json["usage"], contents);
}

void read_ollama(const Json& json, Contents& contents) {
  if (const Json* message = json.member("message"))
    add_text(*message, "content", contents.texts[0]);
  add_text(json, "response", contents.texts[0]);
  contents.scores[0] += size_of(json, "logprobs");
  if (!json["done"].boolean()) return;
  contents.ends[0] = json["done_reason"].string();
  contents.prompt = json["prompt_eval_count"].get<int64_t>();
  contents.made = json["eval_count"].get<int64_t>();
}

void read_native(const Json& json, Contents& contents) {
  const auto index = json["index"].get<int64_t>();
  add_text(json, "content", contents.texts[index]);
  contents.scores[index] += size_of(json, "completion_probabilities");
  if (!json["stop"].boolean()) return;
  contents.ends[index] = json["stop_type"].string();
  contents.prompt = json["tokens_evaluated"].get<int64_t>();
  contents.made += json["tokens_predicted"].get<int64_t>();
}
void read_whole_native(const Json& json, Contents& contents) {
  if (json.is_object()) return read_native(json, contents);
  int64_t index = 0;
  for (const Json& body : json) {
    EXPECT_EQ(body["index"], index++);
    read_native(body, contents);
  }
}

std::vector<Api> all_apis() {
  const Json sampling = {{"temperature", 1}, {"seed", 3}, {"ignore_eos", true}};
  const auto with = [&](Json more) {
    Json json = sampling;
    json.update(more);
    return json;
  };
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  const Json usage = {{"stream_options", {{"include_usage", true}}}};
  const Json chat_scores = {{"logprobs", true}, {"top_logprobs", 2}};
  const Json ollama = {{"model", "tiny"}, {"options", sampling}};
  Json ollama_chat = ollama, ollama_text = ollama;
  ollama_chat["messages"] = messages;
  ollama_text["prompt"] = "Hello";
  return {
      {"chat",
       "/v1/chat/completions",
       with({{"messages", messages}}),
       {"max_tokens"},
       "n",
       chat_scores,
       usage,
       read_choices,
       read_choices},
      {"completions",
       "/v1/completions",
       with({{"prompt", "Hello"}}),
       {"max_tokens"},
       "n",
       {{"logprobs", 2}},
       usage,
       read_choices,
       read_choices},
      {"responses",
       "/v1/responses",
       with({{"input", "Hello"}}),
       {"max_output_tokens"},
       "",
       {{"top_logprobs", 2}},
       Json::object(),
       read_whole_response,
       read_response_event},
      {"messages",
       "/v1/messages",
       with({{"messages", messages}}),
       {"max_tokens"},
       "",
       Json(),
       Json::object(),
       read_whole_message,
       read_message_event},
      {"ollama_chat",
       "/api/chat",
       ollama_chat,
       {"options", "num_predict"},
       "",
       chat_scores,
       Json::object(),
       read_ollama,
       read_ollama},
      {"ollama_generate",
       "/api/generate",
       ollama_text,
       {"options", "num_predict"},
       "",
       chat_scores,
       Json::object(),
       read_ollama,
       read_ollama},
      {"llama_completion",
       "/completion",
       with({{"prompt", "Hello"}}),
       {"n_predict"},
       "n_cmpl",
       {{"n_probs", 2}},
       Json::object(),
       read_whole_native,
       read_native},
  };
}

/// A reply whose client leaves, or whose server stops, after the first piece of a stream. A slow
/// reader may get a whole answer as few pieces.
class CutReply : public KeptReply {
 public:
  enum class Cut { kLeave, kStop };
  explicit CutReply(Cut cut) : cut_(cut) {}

  bool write(std::string piece) override {
    const bool sent = KeptReply::write(std::move(piece));
    if (++pieces_ == 1 && cut_ == Cut::kLeave) leave();
    return sent;
  }
  bool ending() const override { return cut_ == Cut::kStop && pieces_ > 0; }
  int pieces() const { return pieces_; }

  /// A stream has at most as many pieces before it asks whether the client is there.
  static constexpr int kPieces = 7;

 private:
  Cut cut_;
  int pieces_ = 0;
};

/// A server with one model of random weights.
class Machine {
 public:
  explicit Machine(const char* chat_template) : file_(chat_template, true, 11, 4096) {
    ModelSource source{.id = "tiny", .path = file_.path()};
    source.load.threads = 1;
    source.load.context = 4096;
    source.scheduler = {.slots = 4};
    context_.models.add(std::move(source));
    lease_ = context_.models.find("tiny");
    context_.ready = true;
    service_ = std::make_unique<Service>(context_, ServiceOptions{});
  }

  void handle(const char* path, const Json& body, Reply& reply) {
    HttpRequest request{.method = "POST",
                        .headers = {{"content-type", "application/json"}},
                        .body = dump_json(body)};
    set_target(request, path);
    service_->handle(request, reply);
  }
  Contents whole(const Api& api, const Json& body) {
    KeptReply reply;
    handle(api.path, body, reply);
    EXPECT_EQ(reply.status(), 200) << reply.body();
    Contents contents;
    api.whole(parse_json(reply.body(), "reply"), contents);
    contents.record = reply.record();
    return contents;
  }
  Contents stream(const Api& api, const Json& body) {
    KeptReply reply;
    handle(api.path, body, reply);
    EXPECT_EQ(reply.status(), 200) << reply.body();
    EXPECT_TRUE(reply.ended());
    Contents contents;
    for (const Json& event : events(reply)) api.event(event, contents);
    contents.record = reply.record();
    return contents;
  }

  /// Returns the values of server-sent events or lines of JSON, without "[DONE]".
  static std::vector<Json> events(const KeptReply& reply) {
    const bool lines = reply.type() == "application/x-ndjson";
    const std::string prefix = lines ? "" : "data: ";
    std::vector<Json> list;
    const std::string& text = reply.body();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      if (line.empty() || !line.starts_with(prefix) || line == "data: [DONE]") continue;
      list.push_back(parse_json(line.substr(prefix.size()), "event"));
    }
    return list;
  }

  ServedModel& model() { return *lease_; }

  /// Returns the counts once all answers have ended.
  SchedulerCounts idle() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto counts = [&] { return lease_->scheduler()->counts(); };
    while (counts().finished() < counts().requests && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(counts().finished(), counts().requests);
    return counts();
  }

 private:
  test::TinyModel file_;
  Context context_;
  Models::Lease lease_;
  std::unique_ptr<Service> service_;
};

void expect_record(const Contents& contents) {
  const RequestRecord& record = contents.record;
  EXPECT_EQ(record.model, "tiny");
  EXPECT_EQ(record.prompt_tokens, contents.prompt);
  EXPECT_LE(record.cached_tokens, contents.prompt);
  EXPECT_EQ(record.answer_tokens, contents.made);
  EXPECT_GE(record.first_token, 0);
  EXPECT_EQ(record.finish, "length");
}

class Answers : public ::testing::TestWithParam<Api> {
 protected:
  static Machine& machine() {
    static Machine machine(kTemplate);
    return machine;
  }
};

TEST_P(Answers, OfAStreamAreThoseOfAWholeReply) {
  const Api& api = GetParam();
  for (const bool scores : {false, true}) {
    if (scores && api.scores.is_null()) continue;
    Json body = api.request(api.most(), kTokens, false);
    if (scores) body.update(api.scores);
    const Contents whole = machine().whole(api, body);
    body["stream"] = true;
    body.update(api.usage);
    const Contents stream = machine().stream(api, body);
    EXPECT_EQ(std::ssize(whole.texts), api.most());
    EXPECT_EQ(stream.texts, whole.texts);
    EXPECT_EQ(stream.ends, whole.ends);
    EXPECT_EQ(stream.scores, whole.scores);
    EXPECT_EQ(stream.prompt, whole.prompt);
    EXPECT_EQ(stream.made, whole.made);
    EXPECT_GT(whole.prompt, 5);
    EXPECT_EQ(whole.made, api.most() * kTokens);
    expect_record(whole);
    expect_record(stream);
    // A response has only the scores of text, and some tokens complete no character.
    if (std::string_view(api.name) == "responses")
      EXPECT_EQ(scores, whole.all_scores() > 0);
    else
      EXPECT_EQ(whole.all_scores(), scores ? static_cast<size_t>(whole.made) : 0U);
    if (api.most() > 1) {
      EXPECT_NE(whole.texts.at(0), whole.texts.at(1));
    }
  }
}

TEST_P(Answers, EndIfTheClientLeaves) {
  const Api& api = GetParam();
  const SchedulerCounts before = machine().idle();
  CutReply reply(CutReply::Cut::kLeave);
  machine().handle(api.path, api.request(api.most(), kManyTokens, true), reply);
  EXPECT_FALSE(reply.ended());
  EXPECT_LE(reply.pieces(), CutReply::kPieces);
  EXPECT_EQ(reply.record().finish, "cancelled");
  EXPECT_EQ(machine().idle().cancelled, before.cancelled + api.most());
}

TEST_P(Answers, ErrorsEndAStreamInTheFormOfItsApi) {
  const Api& api = GetParam();
  const SchedulerCounts before = machine().idle();
  CutReply reply(CutReply::Cut::kStop);
  machine().handle(api.path, api.request(api.most(), kManyTokens, true), reply);
  EXPECT_EQ(reply.status(), 200);
  EXPECT_TRUE(reply.ended());
  EXPECT_EQ(reply.body().find("[DONE]"), std::string::npos);
  const Json last = Machine::events(reply).back();
  ASSERT_TRUE(last.contains("error")) << dump_json(last);
  const Json& error = last["error"];
  const std::string message =
      error.is_object() ? error["message"].string() : error.string();  // Ollama's is a text
  EXPECT_NE(message.find("the server stops"), std::string::npos) << message;
  EXPECT_EQ(reply.record().finish, "error");
  EXPECT_EQ(machine().idle().cancelled, before.cancelled + api.most());
}

// The first letter of an answer decides whether its grammar becomes too ambiguous.
TEST_P(Answers, AnErrorOfOneEndsTheOthers) {
  const Api& api = GetParam();
  if (api.count.empty()) GTEST_SKIP() << "has one answer";
  if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
  Json body = api.request(3, 1, false);
  body["grammar"] = "root ::= \"a\" s | \"b\" [a-z]+\ns ::= s s | [a-z ] | \"\"";
  body["logit_bias"] = {{"257", -100}};
  std::string letters;
  for (int seed = 0; seed < 100 && (letters.find('a') == std::string::npos ||
                                    letters.find('b') == std::string::npos);
       ++seed) {
    body["seed"] = seed;
    letters.clear();
    for (const auto& [index, text] : machine().whole(api, body).texts) letters += text;
  }
  ASSERT_NE(letters.find('a'), std::string::npos) << letters;
  ASSERT_NE(letters.find('b'), std::string::npos) << letters;
  for (const bool stream : {false, true}) {
    const SchedulerCounts before = machine().idle();
    body["stream"] = stream;
    body[api.length.front()] = kManyTokens;
    KeptReply reply;
    machine().handle(api.path, body, reply);
    EXPECT_EQ(reply.status(), stream ? 200 : 400) << reply.body().substr(0, 500);
    const Json last = stream ? Machine::events(reply).back() : parse_json(reply.body(), "reply");
    ASSERT_TRUE(last.contains("error")) << dump_json(last);
    EXPECT_NE(last["error"]["message"].string().find("ambiguous"), std::string::npos);
    const SchedulerCounts after = machine().idle();
    EXPECT_GE(after.failed, before.failed + 1);
    EXPECT_GE(after.cancelled, before.cancelled + 1);
    EXPECT_EQ(after.cut, before.cut);
  }
}

TEST_P(Answers, OfSeveralPromptsAreNumberedThroughout) {
  const Api& api = GetParam();
  if (!api.body.contains("prompt") || api.count.empty()) GTEST_SKIP() << "has one prompt";
  Json body = api.request(2, kTokens, false);
  body["prompt"] = Json::array({"Hello", "Good morning"});
  const Contents whole = machine().whole(api, body);
  body["stream"] = true;
  body.update(api.usage);
  const Contents stream = machine().stream(api, body);
  EXPECT_EQ(std::ssize(whole.texts), 4);
  EXPECT_EQ(stream.texts, whole.texts);
  EXPECT_EQ(stream.ends, whole.ends);
  EXPECT_EQ(stream.made, whole.made);
  EXPECT_EQ(whole.made, 4 * kTokens);
  EXPECT_EQ(whole.record.prompt_tokens, 1 + 5 + 1 + 12);  // with the token at the beginning
}

TEST_P(Answers, OfAStreamHaveTheirUsageOnRequest) {
  const Api& api = GetParam();
  if (api.usage.empty()) GTEST_SKIP() << "always sends the usage";
  for (const bool usage : {false, true}) {
    Json body = api.request(2, kTokens, true);
    if (usage) body.update(api.usage);
    KeptReply reply;
    machine().handle(api.path, body, reply);
    std::vector<Json> events = Machine::events(reply);
    ASSERT_FALSE(events.empty());
    EXPECT_TRUE(reply.body().ends_with("data: [DONE]\n\n"));
    if (usage) {
      EXPECT_TRUE(events.back()["choices"].empty());
      EXPECT_EQ(events.back()["usage"]["completion_tokens"], 2 * kTokens);
      events.pop_back();
    }
    for (const Json& event : events) {
      EXPECT_EQ(event["choices"].size(), 1U);
      EXPECT_EQ(event.contains("usage"), usage);
      if (usage) {
        EXPECT_TRUE(event["usage"].is_null());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Answers, ::testing::ValuesIn(all_apis()),
                         [](const auto& one) { return std::string(one.param.name); });

AnswerRequest request_of(Machine& machine, int64_t tokens) {
  AnswerRequest request{.model = machine.model(), .count = 3, .stream = true};
  request.generate.prompt = {1, 2, 3};
  request.generate.options.max_tokens = tokens;
  request.generate.options.ignore_eos = true;
  return request;
}

/// Writes no piece, like a parser that holds its text back, or an event per piece.
class QuietWriter : public ReplyWriter {
 public:
  explicit QuietWriter(bool writes) : writes_(writes) {}
  Json whole(AnswerList, const AnswerUsage&) override { return {}; }
  void add(const Answer&, const AnswerPiece& piece, EventStream& stream) override {
    ++pieces;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (writes_) stream.data(piece.text);
  }
  void end(const Answer&, EventStream&) override { ++ends; }
  void finish(AnswerList, const AnswerUsage&, EventStream& stream) override { stream.done(); }
  void ping(EventStream& stream) override {
    ++pings;
    stream.ping();
  }

  int pieces = 0, ends = 0, pings = 0;

 private:
  bool writes_;
};

TEST(SendAnswers, PingsIfPiecesWriteNothing) {
  Machine machine(kTemplate);
  AnswerRequest request = request_of(machine, kTokens);
  request.ping_seconds = 1e-3;
  QuietWriter quiet(false);
  KeptReply reply;
  send_answers(request, quiet, reply);
  EXPECT_GT(quiet.pieces, 0);
  EXPECT_GE(quiet.pings, quiet.pieces);  // each piece takes longer than ping_seconds
  EXPECT_EQ(quiet.ends, 3);
  EXPECT_TRUE(reply.ended());

  request.ping_seconds = 60;
  QuietWriter busy(true);
  KeptReply other;
  send_answers(request, busy, other);
  EXPECT_GT(busy.pieces, 0);
  EXPECT_EQ(busy.pings, 0);
}

/// A reply that has no memory for another function.
class ShortReply : public KeptReply {
 public:
  void on_gone(std::function<void()>) override { throw std::bad_alloc(); }
};

TEST(SendAnswers, CancelsAnswersIfMemoryIsShort) {
  Machine machine(kTemplate);
  QuietWriter writer(false);
  ShortReply reply;
  EXPECT_THROW(send_answers(request_of(machine, kManyTokens), writer, reply), std::bad_alloc);
  EXPECT_EQ(machine.idle().cancelled, 3);
}

TEST(AnswerUsage, CountsTheReasoningOfAllAnswers) {
  Machine machine((std::string(kTemplate) + "<think>\n").c_str());
  const Api chat = all_apis().front();
  KeptReply reply;
  machine.handle(chat.path, chat.request(3, kTokens, false), reply);
  const Json body = parse_json(reply.body(), "reply");
  for (const Json& choice : body["choices"])
    EXPECT_TRUE(choice["message"].contains("reasoning_content")) << reply.body();
  EXPECT_GT(body["usage"]["completion_tokens_details"]["reasoning_tokens"].get<int64_t>(),
            2 * kTokens);
}

}  // namespace
}  // namespace veery::serve
