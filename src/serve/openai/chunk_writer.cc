#include "serve/openai/chunk_writer.h"

#include <utility>

#include "serve/api/openai.h"

namespace veery::serve {

bool read_include_usage(const Fields& fields) {
  const Json* options = fields.object("stream_options");
  return options != nullptr &&
         Fields(*options, "stream_options.").flag("include_usage").value_or(false);
}

ChunkWriter::ChunkWriter(Json frame, bool usage) : chunk_(std::move(frame)), usage_(usage) {
  if (usage) chunk_["usage"] = nullptr;
}

void ChunkWriter::send(Json choice, EventStream& stream) const {
  Json body = chunk_;
  body["choices"] = Json::array({std::move(choice)});
  stream.data(body);
}

void ChunkWriter::finish(AnswerList, const AnswerUsage& usage, EventStream& stream) {
  if (usage_) {
    Json body = chunk_;
    body["choices"] = Json::array();
    body["usage"] = usage_json(usage);
    stream.data(body);
  }
  stream.done();
}

}  // namespace veery::serve
