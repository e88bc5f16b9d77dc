#include "text/pipeline/post_processor.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/json_fields.h"

namespace veery {
namespace {

constexpr size_t kMostAdded = 1024;  // models have one or two

int32_t checked_id(const Json& id) {
  if (!id.is_integer_in(0, INT32_MAX))
    throw Error(ErrorKind::kFormat, "post_processor: {} is not the id of a token",
                printable(dump_json(id), 60));
  return id.get<int32_t>();
}

// ["[CLS]", 101]
int32_t id_of_pair(const Json& json, const char* key) {
  const Json& pair = json_array(json, key);
  if (pair.size() != 2)
    throw Error(ErrorKind::kFormat, "post_processor: \"{}\" is {}, expected a token and its id",
                key, printable(dump_json(pair), 60));
  return checked_id(pair[1]);
}

}  // namespace

PostProcessor::PostProcessor(std::vector<int32_t> before, std::vector<int32_t> after)
    : before_(std::move(before)), after_(std::move(after)) {}

PostProcessor::PostProcessor(const Json& json) {
  if (!json.is_null()) read(json);
}

void PostProcessor::wrap(const std::vector<int32_t>& before, const std::vector<int32_t>& after) {
  if (added() > 0)
    throw Error(ErrorKind::kUnsupported,
                "post_processor: a sequence of two that add tokens is not supported");
  before_ = before;
  after_ = after;
}

void PostProcessor::read_template(const Json& json) {
  const Json& tokens = json_member(json, "special_tokens");
  std::vector<int32_t> before, after;
  bool text_seen = false;
  for (const Json& piece : json_array(json, "single")) {
    if (piece.is_object() && piece.contains("Sequence")) {
      if (text_seen)
        throw Error(ErrorKind::kUnsupported,
                    "post_processor: a template with its text twice is not supported");
      text_seen = true;
      continue;
    }
    const std::string name = json_text(json_member(piece, "SpecialToken"), "id");
    for (const Json& id : json_array(json_member(tokens, name.c_str()), "ids"))
      (text_seen ? after : before).push_back(checked_id(id));
    if (before.size() + after.size() > kMostAdded)
      throw Error(ErrorKind::kLimit, "post_processor: a template adds more than {} tokens",
                  kMostAdded);
  }
  if (!text_seen)
    throw Error(ErrorKind::kUnsupported,
                "post_processor: a template without its text is not supported");
  wrap(before, after);
}

void PostProcessor::read(const Json& json) {
  const std::string type = json_text(json, "type");
  if (type == "Sequence") {
    for (const Json& part : json_array(json, "processors")) read(part);
  } else if (type == "TemplateProcessing") {
    read_template(json);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    wrap({id_of_pair(json, "cls")}, {id_of_pair(json, "sep")});
  } else if (type != "ByteLevel") {  // which only changes offsets
    throw Error(ErrorKind::kUnsupported, "post_processor of type \"{}\" is not known",
                printable(type));
  }
}

size_t PostProcessor::added() const { return before_.size() + after_.size(); }

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids) const {
  ids.insert(ids.begin(), before_.begin(), before_.end());
  ids.insert(ids.end(), after_.begin(), after_.end());
  return ids;
}

std::optional<Truncation> Truncation::read(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const int64_t longest = json_integer(json, "max_length", 512);
  if (longest < 0)
    throw Error(ErrorKind::kFormat, "truncation: \"max_length\" is {}, expected at least 0",
                longest);
  return Truncation{.longest = static_cast<size_t>(longest),
                    .keeps_end = json_text(json, "direction", "Right") == "Left"};
}

void Truncation::apply(std::vector<int32_t>& ids, size_t added) const {
  const size_t room = longest - std::min(longest, added);
  if (ids.size() <= room) return;
  const auto surplus = static_cast<ptrdiff_t>(ids.size() - room);
  if (keeps_end)
    ids.erase(ids.begin(), ids.begin() + surplus);
  else
    ids.resize(room);
}

}  // namespace veery
