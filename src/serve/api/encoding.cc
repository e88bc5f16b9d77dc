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

// A text or a list of texts. Ids of another tokenizer would give wrong vectors in silence.
std::vector<std::string> read_inputs(const Fields& fields, const char* name) {
  const Json* found = fields.find(name);
  const bool ids = found != nullptr && found->is_array() && !found->empty() &&
                   (found->front().is_number() || found->front().is_array());
  if (ids)
    throw ApiError(400,
                   fmt::format("{} has token ids, expected texts: ids are those of one tokenizer "
                               "only (with LangChain: check_embedding_ctx_length=False)",
                               name),
                   name);
  std::vector<std::string> texts = fields.texts(name);
  if (texts.empty() || texts.size() > kMostTexts)
    fields.fail(name, fmt::format("a text or a list of 1 to {} texts", kMostTexts));
  return texts;
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
    throw ApiError(400, fmt::format("the model '{}' makes no embeddings", model.id()), "model");
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
  reply.send(200, kJson,
             dump_json({{"object", "list"},
                        {"data", data},
                        {"model", model.id()},
                        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
}

void rerank(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, rerank_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  if (!model.reranks())
    throw ApiError(400, fmt::format("the model '{}' makes no scores", model.id()), "model");
  const std::string query = fields.require_text("query");
  const std::vector<std::string> documents =
      read_inputs(fields, fields.has("texts") ? "texts" : "documents");
  const auto most = fields.integer("top_n", 0, INT32_MAX).value_or(std::ssize(documents));
  const bool texts = fields.flag("return_documents").value_or(false);
  const std::vector<PairScore> scores =
      model.rerank(query, documents, fields.text("instruction").value_or(""));
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return scores[a].score > scores[b].score; });
  Json results = Json::array();
  int64_t tokens = 0;
  for (const PairScore& score : scores) tokens += score.tokens;
  for (size_t i = 0; i < order.size() && static_cast<int64_t>(i) < most; ++i) {
    Json result = {{"index", order[i]}, {"relevance_score", scores[order[i]].score}};
    if (texts) result["document"] = {{"text", documents[order[i]]}};
    results.push_back(std::move(result));
  }
  reply.send(200, kJson,
             dump_json({{"object", "list"},
                        {"model", model.id()},
                        {"results", results},
                        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
}

}  // namespace veery::serve
