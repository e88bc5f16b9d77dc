// reference_vocabulary.cc: compares the texts and tokens of a reference with those of a tokenizer.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "chat/chat.h"
#include "verify/parts.h"
#include "verify/reference.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kTokenizer = "tokenizer";
constexpr int32_t kBlock = 64;  // tokens per hash
constexpr size_t kMostTexts = 100'000;

// Scripts, numbers, code and spaces: texts that damaged vocabularies and merges tokenise
// differently.
constexpr std::string_view kTexts[] = {
    "The lake froze in January 1987; 3.14159 and 1,000,000 are numbers.",
    "def add(a, b):\n    return a + b  # a comment\n\n\tx = {\"key\": [1, 2]}",
    "Über Straßen und Plätze: naïve café, señor, Łódź, Привет мир, שלום, مرحبا, नमस्ते",
    "你好，世界。こんにちは 안녕하세요 🙂👩‍👩‍👧",
    "  leading, trailing  and   runs of    spaces   \n\n\n"};

std::string hash_of(const Tokenizer& tokenizer, int32_t first) {
  Hash hash;
  const int32_t last = std::min(tokenizer.size(), first + kBlock);
  for (int32_t id = first; id < last; ++id) hash.add(tokenizer.piece(id, true));
  return fmt::format("{:08x}", hash.value() & 0xFFFFFFFFU);
}

std::optional<Ids> ids_of(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  Ids ids;
  for (const Json& id : json) {
    if (!id.is_integer_in(0, INT32_MAX)) return std::nullopt;
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// Collects texts with ids at any level of lists and objects.
void find_texts(const Json& json, int depth, std::vector<VocabularyText>& texts) {
  constexpr int kDeepest = 5;
  if (depth > kDeepest || texts.size() >= kMostTexts) return;
  if (json.is_array())
    for (const Json& item : json) find_texts(item, depth + 1, texts);
  if (!json.is_object()) return;
  const auto text = json.find("text");
  for (const char* key : {"input_ids", "ids"})
    if (const auto ids = json.find(key);
        ids != json.end() && text != json.end() && text->is_string())
      if (auto list = ids_of(*ids)) {
        texts.push_back({text->string(), std::move(*list)});
        return;
      }
  for (const auto& [key, value] : json.items())
    if (value.is_array() || value.is_object()) find_texts(value, depth + 1, texts);
}

std::string shown_id(const Tokenizer& tokenizer, const Ids& ids, size_t at) {
  if (at >= ids.size()) return "the end";
  const int32_t id = ids[at];
  if (id >= tokenizer.size()) return fmt::format("id {}", id);
  return fmt::format("id {} ('{}')", id, printable(tokenizer.piece(id, true), 40));
}

// Describes the first difference between the ids of a text and the reference's; empty if there is
// none. References may omit special tokens around the text.
std::string other_ids(const Tokenizer& tokenizer, const VocabularyText& text, size_t index) {
  const Ids whole = encode_prompt(tokenizer, text.text);
  const Ids bare = tokenizer.encode(text.text, {.add_special = false});
  if (text.ids == whole || text.ids == bare ||
      text.ids == tokenizer.encode(text.text, {.parse_special = false}))
    return {};
  const bool begins = !whole.empty() && !text.ids.empty() && whole.front() == text.ids.front();
  const Ids& found = begins ? whole : bare;
  const auto at = static_cast<size_t>(std::ranges::mismatch(found, text.ids).in1 - found.begin());
  return fmt::format("text {}, token {}: {}, not {}", index, at, shown_id(tokenizer, found, at),
                     shown_id(tokenizer, text.ids, at));
}

void check_texts(const Tokenizer& tokenizer, const ReferenceVocabulary& reference, Report& report) {
  if (reference.texts.empty()) return;
  for (size_t i = 0; i < reference.texts.size(); ++i)
    if (const std::string other = other_ids(tokenizer, reference.texts[i], i); !other.empty())
      return report.add({"reference texts", CheckState::kFail, other, "the recorded ids",
                         "the vocabulary, its merges or its pre-tokenizer are damaged"});
  report.ok("reference texts", fmt::format("{} have the recorded ids", reference.texts.size()));
}

void check_pieces(const Tokenizer& tokenizer, const ReferenceVocabulary& reference,
                  Report& report) {
  if (reference.blocks.empty()) return;
  for (size_t i = 0; i < reference.blocks.size(); ++i) {
    const auto first = static_cast<int32_t>(i) * kBlock;
    if (first + kBlock > tokenizer.size()) break;  // later tokens may be padding of the embedding
    if (hash_of(tokenizer, first) == reference.blocks[i]) continue;
    return report.add(
        {"reference vocabulary", CheckState::kFail,
         fmt::format("tokens {} to {} differ from the recorded ones", first, first + kBlock - 1),
         "the recorded tokens", "tokens are swapped, moved or damaged"});
  }
  report.ok("reference vocabulary", fmt::format("{} tokens as recorded", tokenizer.size()));
}

void check_ends(const Tokenizer& tokenizer, const ReferenceVocabulary& reference, Report& report) {
  if (reference.ends.empty()) return;
  Ids missing;
  for (const int32_t id : reference.ends)
    if (!tokenizer.ends(id)) missing.push_back(id);
  const int32_t eos = tokenizer.special().eos;
  const bool other = reference.eos && *reference.eos != eos;
  if (!other && missing.empty())
    return report.ok("reference ends",
                     fmt::format("id {} ends an answer", fmt::join(reference.ends, ", ")));
  report.add({"reference ends", CheckState::kFail,
              other ? fmt::format("EOS is {}", shown_id(tokenizer, {eos}, eos < 0 ? 1 : 0))
                    : fmt::format("{} does not end an answer", shown_id(tokenizer, missing, 0)),
              other ? shown_id(tokenizer, {*reference.eos}, *reference.eos < 0 ? 1 : 0)
                    : fmt::format("ids {}", fmt::join(reference.ends, ", ")),
              "the EOS in the file is wrong: answers do not end properly"});
}

}  // namespace

ReferenceVocabulary parse_reference_vocabulary(const Json& json) {
  ReferenceVocabulary vocabulary;
  find_texts(json, 0, vocabulary.texts);
  if (!json.is_object()) return vocabulary;
  const auto tokenizer = json.find(kTokenizer);
  if (tokenizer == json.end() || !tokenizer->is_object()) return vocabulary;
  if (const auto eos = tokenizer->find("eos");
      eos != tokenizer->end() && eos->is_integer_in(-1, INT32_MAX))
    vocabulary.eos = eos->get<int32_t>();
  if (const auto ends = tokenizer->find("ends"); ends != tokenizer->end())
    vocabulary.ends = ids_of(*ends).value_or(Ids());
  const auto size = tokenizer->find("block");
  const auto blocks = tokenizer->find("blocks");
  if (size == tokenizer->end() || blocks == tokenizer->end() || !blocks->is_array() ||
      *size != kBlock)
    return vocabulary;
  for (const Json& block : *blocks)
    vocabulary.blocks.push_back(block.is_string() ? block.string() : std::string());
  return vocabulary;
}

ReferenceVocabulary read_reference_vocabulary(const std::string& path) {
  const MappedFile file(path, kReferenceFile);
  if (!file.text().starts_with('{')) return {};  // safetensors
  return parse_reference_vocabulary(parse_json(file.text(), path));
}

Json recorded_vocabulary(const Tokenizer& tokenizer) {
  Json texts = Json::array(), blocks = Json::array();
  for (const std::string_view text : kTexts)
    texts.push_back(
        {{"text", std::string(text)}, {"ids", tokenizer.encode(text, {.add_special = false})}});
  for (int32_t first = 0; first < tokenizer.size(); first += kBlock)
    blocks.push_back(hash_of(tokenizer, first));
  return {{"eos", tokenizer.special().eos},
          {"ends", tokenizer.special().ends},
          {"texts", std::move(texts)},
          {"block", kBlock},
          {"blocks", std::move(blocks)}};
}

void check_vocabulary(const Tokenizer& tokenizer, const ReferenceVocabulary& reference,
                      Report& report) {
  if (tokenizer.size() == 0) return;
  check_texts(tokenizer, reference, report);
  check_pieces(tokenizer, reference, report);
  check_ends(tokenizer, reference, report);
}

}  // namespace veery
