// POST /v1/embeddings, /v1/rerank
#include "serve/api/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/fields.h"
#include "serve/api/prompt.h"
#include "serve/rules/groups.h"
#include "text/common/base64.h"

namespace veery::serve {
namespace {

constexpr size_t kMostTexts = 2048;

// Reads a text or a list of texts. Token ids are refused: those of another tokenizer would silently
// give wrong vectors.
std::vector<std::string> read_inputs(const Fields& fields, const char* name) {
  const Json* found = fields.find(name);
  const bool ids = found != nullptr && found->is_array() && !found->empty() &&
                   (found->front().is_number() || found->front().is_array());
  if (ids)
    throw ApiError(400,
                   fmt::format("{} has token ids, expected texts, as ids depend on the tokenizer "
                               "(with LangChain: check_embedding_ctx_length=False)",
                               name),
                   name);
  std::vector<std::string> texts = fields.texts(name);
  if (texts.empty() || texts.size() > kMostTexts)
    fields.fail(name, fmt::format("a text or a list of 1 to {} texts", kMostTexts));
  return texts;
}

// Returns the text of a document: a string, or the fields `names` of an object, each on a line.
std::string document_text(const Json& document, const std::vector<std::string>& names,
                          const std::string& where) {
  const auto fail = [&](const std::string& what) {
    throw ApiError(400, fmt::format("{} {}", where, what), where);
  };
  if (document.is_string()) return document.string();
  if (!document.is_object())
    fail(fmt::format("is a JSON {}, expected a text or an object with one", document.type_name()));
  std::string text;
  for (const std::string& name : names) {
    const Json* value = document.member(name);
    if (value == nullptr || value->is_null()) {
      if (names.size() == 1) fail(fmt::format("has no field '{}'", name));
      continue;
    }
    if (!text.empty()) text += '\n';
    if (names.size() > 1) text += name + ": ";
    text += value->is_string() ? value->string() : dump_json(*value);
  }
  if (text.empty()) fail("has none of the fields that rank_fields names");
  return text;
}

struct Documents {
  std::vector<std::string> texts;
  Json given;  // as in the request
};

Documents read_documents(const Fields& fields) {
  const char* name = fields.has("texts") ? "texts" : "documents";
  const Json* found = fields.find(name);
  std::vector<std::string> names = fields.texts("rank_fields");
  if (names.empty()) names.push_back("text");
  Documents documents;
  documents.given = found != nullptr && found->is_string() ? Json::array({*found})
                    : found != nullptr                     ? *found
                                                           : Json();
  if (!documents.given.is_array() || documents.given.empty() || documents.given.size() > kMostTexts)
    fields.fail(name, fmt::format("a list of 1 to {} documents", kMostTexts));
  for (size_t i = 0; i < documents.given.size(); ++i)
    documents.texts.push_back(
        document_text(documents.given[i], names, fmt::format("{}[{}]", name, i)));
  return documents;
}

Json vector_json(std::span<const float> values, bool base64) {
  if (base64) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());  // little-endian machines only
    return encode_base64(bytes);
  }
  Json list = Json::array();
  for (const float value : values) list.push_back(value);
  return list;
}

}  // namespace

std::vector<TextEmbedding> embed_texts(ServedModel& model, std::span<const std::string> texts,
                                       int64_t dimensions) {
  if (!model.embeds())
    throw ApiError(
        400, fmt::format("the model '{}' makes {}, expected embeddings", model.id(), model.makes()),
        "model");
  std::vector<TextEmbedding> all = model.embed(texts);
  if (dimensions == 0) return all;
  for (TextEmbedding& one : all) {
    if (dimensions > std::ssize(one.values))
      throw ApiError(
          400, fmt::format("dimensions is {}, expected 1 to {}", dimensions, one.values.size()),
          "dimensions");
    one.values.resize(static_cast<size_t>(dimensions));
    double sum = 0;
    for (const float x : one.values) sum += double{x} * x;
    const auto scale = static_cast<float>(sum > 0 ? 1 / std::sqrt(sum) : 0);
    for (float& x : one.values) x *= scale;
  }
  return all;
}

void embeddings(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, embedding_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  const std::vector<std::string> texts = read_inputs(fields, "input");
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.fail("encoding_format", "float or base64");
  const int64_t dimensions = fields.integer("dimensions", 1, 1 << 20).value_or(0);
  const std::vector<TextEmbedding> all = embed_texts(model, texts, dimensions);
  Json data = Json::array();
  int64_t tokens = 0;
  for (const TextEmbedding& one : all) {
    data.push_back({{"object", "embedding"},
                    {"index", std::ssize(data)},
                    {"embedding", vector_json(one.values, format == "base64")}});
    tokens += one.tokens;
  }
  reply.record().prompt_tokens = tokens;
  reply.send(200, kJson,
             dump_json({{"object", "list"},
                        {"data", data},
                        {"model", model.id()},
                        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
}

// POST /embedding of llama.cpp: a list with one vector for each text.
void llama_embedding(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, llama_embedding_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  const std::vector<std::string> texts =
      read_inputs(fields, fields.has("content") ? "content" : "input");
  if (const auto norm = fields.integer("embd_normalize", -1, INT32_MAX); norm && *norm != 2)
    fields.fail("embd_normalize", "2, the Euclidean norm");
  Json list = Json::array();
  for (const TextEmbedding& one : embed_texts(*lease, texts, 0)) {
    list.push_back({{"index", std::ssize(list)},
                    {"embedding", Json::array({vector_json(one.values, /*base64=*/false)})}});
    reply.record().prompt_tokens += one.tokens;
  }
  reply.send(200, kJson, dump_json(list));
}

void rerank(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, rerank_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  if (!model.reranks())
    throw ApiError(
        400, fmt::format("the model '{}' makes {}, expected scores", model.id(), model.makes()),
        "model");
  const std::string query = fields.require_text("query");
  const Documents documents = read_documents(fields);
  const auto most = fields.integer("top_n", 0, INT32_MAX).value_or(std::ssize(documents.texts));
  const bool texts = fields.flag("return_documents").value_or(false);
  const std::vector<PairScore> scores =
      model.rerank(query, documents.texts, fields.text("instruction").value_or(""));
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return scores[a].score > scores[b].score; });
  Json results = Json::array();
  int64_t tokens = 0;
  for (const PairScore& score : scores) tokens += score.tokens;
  reply.record().prompt_tokens = tokens;
  for (size_t i = 0; i < order.size() && static_cast<int64_t>(i) < most; ++i) {
    Json result = {{"index", order[i]}, {"relevance_score", scores[order[i]].score}};
    const Json& document = documents.given[order[i]];
    if (texts) result["document"] = document.is_object() ? document : Json{{"text", document}};
    results.push_back(std::move(result));
  }
  reply.send(200, kJson,
             dump_json({{"object", "list"},
                        {"model", model.id()},
                        {"results", results},
                        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
}

}  // namespace veery::serve
