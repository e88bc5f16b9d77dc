#include "import/folder/speech_keys.h"

#include "base/error.h"

namespace veery {
namespace {

constexpr int64_t kMost = 1 << 24;

int64_t checked(const Json& value, const std::string& where, const char* key) {
  if (!value.is_number_integer() || value.get<int64_t>() < -1 || value.get<int64_t>() > kMost)
    throw Error(ErrorKind::kFormat, "{}: {} has an invalid entry, expected integers from -1 to {}",
                where, key, kMost);
  return value.get<int64_t>();
}

void copy_list(const Json& list, const std::string& where, const char* key, Metadata& metadata,
               const char* ours) {
  std::vector<int64_t> values;
  for (const Json& item : list) {
    if (!item.is_array()) {
      values.push_back(checked(item, where, key));
      continue;
    }
    for (const Json& part : item) values.push_back(checked(part, where, key));
  }
  metadata.set(ours, std::move(values));
}

}  // namespace

void read_speech_keys(const Json& config, const std::string& where, Metadata& metadata) {
  constexpr std::pair<const char*, const char*> kLists[] = {
      {"suppress_tokens", kSuppressKey},
      {"begin_suppress_tokens", kSuppressFirstKey},
      {"alignment_heads", kAlignmentKey}};
  for (const auto& [theirs, ours] : kLists)
    if (const auto list = config.find(theirs); list != config.end() && list->is_array())
      copy_list(*list, where, theirs, metadata, ours);
  constexpr const char* kFirstTime = "max_initial_timestamp_index";
  if (const auto first = config.find(kFirstTime);
      first != config.end() && first->is_number_integer())
    metadata.set(kFirstTimeKey, checked(*first, where, kFirstTime));
  if (const auto many = config.find("is_multilingual"); many != config.end() && many->is_boolean())
    metadata.set(kMultilingualKey, many->get<bool>());
}

}  // namespace veery
