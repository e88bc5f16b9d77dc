#include "convert/carried_metadata.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/split/pre_tokenizer.h"

namespace veery {
namespace {

constexpr const char* kPre = "tokenizer.ggml.pre";

// Returns whether a key describes the model. Other keys describe the GGUF file itself, or sampling,
// which is in generation_config.json.
bool is_carried(std::string_view key) {
  constexpr std::string_view kOwn[] = {"general.architecture", "general.file_type",
                                       "general.quantization_version", "general.alignment"};
  return key.starts_with("general.") && !key.starts_with("general.sampling.") &&
         std::ranges::find(kOwn, key) == std::end(kOwn);
}

Json to_json(const MetaValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  const auto* texts = std::get_if<std::vector<std::string_view>>(&value);
  if (texts == nullptr) return nullptr;
  Json list = Json::array();
  for (const std::string_view text : *texts) list.push_back(std::string(text));
  return list;
}

void set(const std::string& key, const Json& value, Metadata& metadata) {
  if (value.is_string()) metadata.set(key, value.string());
  if (value.is_boolean()) metadata.set(key, value.get<bool>());
  if (value.is_integer_in(0, INT32_MAX)) metadata.set(key, value.get<int64_t>());
  if (!value.is_array()) return;
  std::vector<std::string> texts;
  for (const Json& text : value) {
    if (!text.is_string()) return;
    texts.push_back(text.string());
  }
  metadata.set_texts(key, std::move(texts));
}

bool cut_alike(const std::string& one, const std::string& other) {
  const PreTokenizerInfo* a = find_pre_tokenizer(one);
  const PreTokenizerInfo* b = find_pre_tokenizer(other);
  return a != nullptr && b != nullptr && std::ranges::equal(a->patterns, b->patterns) &&
         a->ignore_merges == b->ignore_merges && a->plain_bytes == b->plain_bytes &&
         a->compose == b->compose;
}

}  // namespace

Json carried_metadata(const Metadata& metadata) {
  Json carried = Json::object();
  for (const auto& [key, value] : metadata.all())
    if (is_carried(key) || key == kPre)
      if (Json json = to_json(value); !json.is_null()) carried[key] = std::move(json);
  return carried;
}

void restore_metadata(const Json& config, Metadata& metadata) {
  const auto carried = config.find(kCarriedMetadata);
  if (carried == config.end() || !carried->is_object()) return;
  for (const auto& [key, value] : carried->items()) {
    if (is_carried(key)) set(key, value, metadata);
    if (key == kPre && value.is_string() &&
        cut_alike(value.string(), metadata.text(kPre).value_or("")))
      metadata.set(kPre, value.string());
  }
}

}  // namespace veery
