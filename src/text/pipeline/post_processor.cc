#include "text/pipeline/post_processor.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "text/common/json_fields.h"

namespace veery {
namespace {

constexpr size_t kMostAdded = 1024;  // real templates have one or two

int32_t checked_id(const Json& id) {
  if (!id.is_integer_in(0, INT32_MAX))
    throw Error(ErrorKind::kFormat, "post_processor: {} is not the id of a token",
                printable(dump_json(id), 60));
  return id.get<int32_t>();
}

// Returns the id of ["[CLS]", 101].
int32_t id_of_pair(const Json& json, const char* key) {
  const Json& pair = json_array(json, key);
  if (pair.size() != 2)
    throw Error(ErrorKind::kFormat, "post_processor: \"{}\" is {}, expected a token and its id",
                key, printable(dump_json(pair), 60));
  return checked_id(pair[1]);
}

SequenceTemplate::Part read_text_part(const Json& json) {
  const std::string name = json_text(json, "id");
  if (name != "A" && name != "B")
    throw Error(ErrorKind::kFormat,
                "post_processor: a template has the sequence \"{}\", expected A or B",
                printable(name));
  return {name == "A" ? SequenceTemplate::kFirst : SequenceTemplate::kSecond, 0};
}

int32_t read_type(const Json& json) {
  constexpr int64_t kMost = 65535;  // real models have one, two or four
  const int64_t type = json_integer(json, "type_id", 0);
  if (type < 0 || type > kMost)
    throw Error(ErrorKind::kFormat, "post_processor: \"type_id\" is {}, expected 0 to {}", type,
                kMost);
  return static_cast<int32_t>(type);
}

// Reads [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}].
SequenceTemplate::Parts read_parts(const Json& pieces, const Json& tokens) {
  SequenceTemplate::Parts parts;
  for (const Json& piece : pieces) {
    if (piece.is_object() && piece.contains("Sequence")) {
      const Json& text = json_member(piece, "Sequence");
      parts.push_back({read_text_part(text).id, read_type(text)});
      if (std::ranges::count(parts, parts.back().id, &SequenceTemplate::Part::id) > 1)
        throw Error(ErrorKind::kUnsupported,
                    "post_processor: a template with a text twice is not supported");
      continue;
    }
    const Json& token = json_member(piece, "SpecialToken");
    const std::string name = json_text(token, "id");
    for (const Json& id : json_array(json_member(tokens, name.c_str()), "ids"))
      parts.push_back({checked_id(id), read_type(token)});
    if (parts.size() > kMostAdded)
      throw Error(ErrorKind::kLimit, "post_processor: a template adds more than {} tokens",
                  kMostAdded);
  }
  return parts;
}

SequenceTemplate read_template(const Json& json) {
  const Json& tokens = json_member(json, "special_tokens");
  SequenceTemplate out;
  out.single = read_parts(json_array(json, "single"), tokens);
  const auto is_text = [](SequenceTemplate::Part part) { return part.id < 0; };
  if (std::ranges::count_if(out.single, is_text) != 1)
    throw Error(ErrorKind::kUnsupported,
                "post_processor: the single template must contain exactly one sequence");
  std::ranges::find_if(out.single, is_text)->id = SequenceTemplate::kFirst;
  out.pair = json.contains("pair") ? read_parts(json_array(json, "pair"), tokens)
                                   : SequenceTemplate::Parts();
  return out;
}

std::vector<int32_t> ids_of(const SequenceTemplate::Part* begin,
                            const SequenceTemplate::Part* end) {
  std::vector<int32_t> ids;
  for (; begin != end; ++begin) ids.push_back(begin->id);
  return ids;
}

const SequenceTemplate::Part* place_of_text(const SequenceTemplate::Parts& parts) {
  return std::ranges::find(parts.data(), parts.data() + parts.size(), SequenceTemplate::kFirst,
                           &SequenceTemplate::Part::id);
}

}  // namespace

PostProcessor::PostProcessor(const Json& json) {
  if (!json.is_null()) read(json);
}

void PostProcessor::take(SequenceTemplate sequence) {
  if (SequenceTemplate::special_tokens(sequence_.single) > 0)
    throw Error(ErrorKind::kUnsupported,
                "post_processor: two processors that add tokens are not supported");
  sequence_ = std::move(sequence);
}

void PostProcessor::read(const Json& json) {
  const std::string type = json_text(json, "type");
  if (type == "Sequence") {
    for (const Json& part : json_array(json, "processors")) read(part);
  } else if (type == "TemplateProcessing") {
    take(read_template(json));
  } else if (type == "BertProcessing") {
    take(SequenceTemplate::around({id_of_pair(json, "cls")}, {id_of_pair(json, "sep")}, {}, 1));
  } else if (type == "RobertaProcessing") {
    const std::vector<int32_t> sep{id_of_pair(json, "sep")};
    take(SequenceTemplate::around({id_of_pair(json, "cls")}, sep, sep, 0));
  } else if (type != "ByteLevel") {  // ByteLevel only changes offsets
    throw Error(ErrorKind::kUnsupported, "unknown post_processor type \"{}\"", printable(type));
  }
}

std::vector<int32_t> PostProcessor::before() const {
  return ids_of(sequence_.single.data(), place_of_text(sequence_.single));
}

std::vector<int32_t> PostProcessor::after() const {
  return ids_of(place_of_text(sequence_.single) + 1,
                sequence_.single.data() + sequence_.single.size());
}

bool read_keeps_end(const Json& json) {
  if (json.is_null()) return false;
  if (const int64_t longest = json_integer(json, "max_length", 512); longest < 0)
    throw Error(ErrorKind::kFormat, "truncation: \"max_length\" is {}, expected at least 0",
                longest);
  constexpr std::string_view kStrategies[] = {"LongestFirst", "OnlyFirst", "OnlySecond"};
  const std::string strategy = json_text(json, "strategy", kStrategies[0]);
  if (std::ranges::find(kStrategies, strategy) == std::end(kStrategies))
    throw Error(
        ErrorKind::kFormat,
        "truncation: \"strategy\" is \"{}\", expected LongestFirst, OnlyFirst or OnlySecond",
        printable(strategy));
  return json_text(json, "direction", "Right") == "Left";
}

}  // namespace veery
