// chunk_writer.h: the parts that chat completions and completions share.
#pragma once
#include "base/json.h"
#include "serve/api/fields.h"
#include "serve/api/reply_writer.h"

namespace veery::serve {

/// Returns stream_options.include_usage, which is false by default.
bool read_include_usage(const Fields& fields);

/// Writes the chunks of a stream, each with one choice. If `usage`, the last one has the usage and
/// the others have null instead.
class ChunkWriter : public ReplyWriter {
 public:
  void finish(AnswerList answers, const AnswerUsage& usage, EventStream& stream) override;

 protected:
  /// `frame`: the members that all chunks have.
  ChunkWriter(Json frame, bool usage);
  void send(Json choice, EventStream& stream) const;

 private:
  Json chunk_;  // without choices
  bool usage_;
};

}  // namespace veery::serve
