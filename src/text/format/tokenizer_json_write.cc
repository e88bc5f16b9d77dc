#include "text/format/tokenizer_json_write.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/common/base64.h"
#include "text/format/sentencepiece_model.h"
#include "text/pipeline/added_tokens.h"
#include "text/special_tokens.h"
#include "text/split/pre_tokenizer.h"
#include "text/subword/merge_table.h"
#include "text/subword/sentencepiece_bpe.h"
#include "text/template_sources.h"

namespace veery {
namespace {

constexpr size_t kLongestToken = 1024;  // in bytes; every split of a token is looked up

/// The members of a tokenizer.json.
struct Parts {
  Json model, normalizer, pre_tokenizer, decoder;
  std::vector<std::string> tokens;  // by id; "": unused id
  std::vector<double> scores;       // unigram models only
  std::vector<MergeText> merges;    // views into the metadata or `tokens`
  std::vector<AddedToken> added;
};

bool is_whole(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

Json sequence(const char* list, Json parts) {
  if (parts.empty()) return nullptr;
  if (parts.size() == 1) return parts[0];
  return {{"type", "Sequence"}, {list, std::move(parts)}};
}

Json replace(const char* kind, std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

// Reads written tokens and added tokens. Among equal tokens only the first is kept; an added token
// comes before other tokens, because text with its spelling always becomes the added token.
void read_tokens(const Vocabulary& vocabulary, bool strip_after, Parts& parts) {
  const auto count = static_cast<size_t>(vocabulary.size());
  parts.tokens.resize(count);
  std::unordered_set<std::string_view> taken;
  for (const bool whole : {true, false})
    for (size_t i = 0; i < count; ++i) {
      const auto id = static_cast<int32_t>(i);
      if (is_whole(vocabulary.type(id)) != whole) continue;
      std::string token = vocabulary.written(id);
      if (valid_utf8(token) != token)
        throw Error(ErrorKind::kUnsupported,
                    "token {} is {}, which is not UTF-8 and cannot be written to tokenizer.json",
                    id, printable(token));
      if (token.empty() || taken.contains(token)) continue;
      parts.tokens[i] = std::move(token);
      taken.insert(parts.tokens[i]);
      if (!whole) continue;
      AddedToken& added = parts.added.emplace_back();
      added.content = parts.tokens[i];
      added.id = id;
      added.special = vocabulary.type(id) != TokenType::kUserDefined;
      added.rstrip = strip_after && !keeps_spaces_after(added.content);
    }
  std::ranges::sort(parts.added, {}, &AddedToken::id);
}

Json bpe_model(bool byte_fallback, bool ignore_merges, const Json& unknown) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", !unknown.is_null()},
          {"byte_fallback", byte_fallback},
          {"ignore_merges", ignore_merges}};
}

// Converts a pattern to Oniguruma's dialect, in which scripts have no prefix.
std::string pattern_of(std::string_view pattern) {
  constexpr std::string_view kScript = "\\p{sc:";
  std::string out(pattern);
  for (size_t at = 0; (at = out.find(kScript, at)) != std::string::npos;)
    out.replace(at, kScript.size(), "\\p{");
  return out;
}

// Returns each merge once, and only merges whose three tokens text can produce.
std::vector<MergeText> byte_level_merges(const Metadata& metadata, const Vocabulary& vocabulary,
                                         const Parts& parts) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    if (const std::string& token = parts.tokens[static_cast<size_t>(id)];
        !token.empty() && !is_whole(vocabulary.type(id)))
      ids.emplace(token, id);
  const auto id_of = [&](const std::string& token) {
    const auto found = ids.find(token);
    return found == ids.end() ? -1 : found->second;
  };
  const auto* texts = metadata.texts("tokenizer.ggml.merges");
  std::vector<MergeText> merges;
  std::set<std::pair<int32_t, int32_t>> seen;
  for (const MergeText& merge : cut_merges(*texts, "tokenizer.ggml.merges")) {
    const std::string left(merge.left), right(merge.right);
    const std::pair pair(id_of(left), id_of(right));
    if (pair.first >= 0 && pair.second >= 0 && id_of(left + right) >= 0 && seen.insert(pair).second)
      merges.push_back(merge);
  }
  return merges;
}

Json splits_of(const PreTokenizerInfo& info) {
  Json splits = Json::array();
  for (const std::string_view pattern : info.patterns)
    splits.push_back({{"type", "Split"},
                      {"pattern", {{"Regex", pattern_of(pattern)}}},
                      {"behavior", "Isolated"},
                      {"invert", false}});
  return splits;
}

Parts byte_level_parts(const ModelFile& file, const PreTokenizerInfo& info) {
  const Metadata& metadata = file.metadata;
  if (info.plain_bytes)
    throw Error(ErrorKind::kUnsupported,
                "{}: tokenizer.ggml.pre \"{}\" cannot be converted to a tokenizer.json", file.path,
                printable(info.name));
  Vocabulary vocabulary(metadata, true);
  resolve_special(metadata, {.add_bos = info.add_bos}, vocabulary);
  Parts parts;
  read_tokens(vocabulary, strips_after_special(metadata), parts);
  parts.merges = byte_level_merges(metadata, vocabulary, parts);
  parts.model = bpe_model(false, info.ignore_merges, nullptr);
  if (info.compose) parts.normalizer = {{"type", "NFC"}};
  Json splits = splits_of(info);
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", false},
                      {"use_regex", false}};
  splits.push_back(bytes);
  parts.pre_tokenizer = sequence("pretokenizers", std::move(splits));
  parts.decoder = bytes;
  return parts;
}

// Collapses runs of spaces and strips those at the ends.
void add_collapse(Json& steps) {
  steps.push_back(replace("Regex", kEdgeSpaces, ""));
  steps.push_back(replace("Regex", kSpaceRuns, " "));
}

void add_charsmap(const std::string& bytes, Json& steps) {
  if (!bytes.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(bytes)}});
}

Json mark_decoder(bool prefix) {
  Json steps = {replace("String", kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", std::move(steps));
}

std::string charsmap_of(const Metadata& metadata) {
  std::string bytes;
  if (metadata.find("tokenizer.ggml.precompiled_charsmap"))
    for (const int64_t byte : *metadata.integers("tokenizer.ggml.precompiled_charsmap"))
      bytes.push_back(static_cast<char>(byte));
  return bytes;
}

/// Converts the scores of SentencePiece BPE to ranked merges: every split of a token into two
/// tokens. Merges are ordered by decreasing score of the merged token; those of one token by
/// ascending ids of the two parts.
class ScoreMerges {
 public:
  ScoreMerges(const Vocabulary& vocabulary, const std::vector<std::string>& tokens)
      : vocabulary_(vocabulary), tokens_(tokens) {}

  std::vector<MergeText> make() {
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string_view text = vocabulary_.bytes(id);
      if (!is_text(id) || vocabulary_.find_bytes(text) != id) continue;
      if (text.size() > kLongestToken)
        throw Error(ErrorKind::kLimit, "token {} has {} bytes, at most {} can be split into merges",
                    id, text.size(), kLongestToken);
      add_cuts(id, text);
    }
    std::ranges::stable_sort(
        pairs_, [&](const Pair& a, const Pair& b) { return score(a.merged) > score(b.merged); });
    std::vector<MergeText> merges;
    for (const Pair& pair : pairs_)
      merges.push_back(
          {tokens_[static_cast<size_t>(pair.left)], tokens_[static_cast<size_t>(pair.right)]});
    return merges;
  }

 private:
  struct Pair {
    int32_t left, right, merged;
  };

  float score(int32_t id) const {
    const float score = vocabulary_.score(id);
    return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  }
  bool is_text(int32_t id) const {
    const TokenType type = vocabulary_.type(id);
    // Spaces in the text are written as marks.
    return type != TokenType::kControl && type != TokenType::kUnknown && type != TokenType::kByte &&
           !tokens_[static_cast<size_t>(id)].empty() &&
           vocabulary_.bytes(id).find(' ') == std::string_view::npos;
  }
  void add_cuts(int32_t id, std::string_view text) {
    const size_t first = pairs_.size();
    for (size_t cut = 0; cut < text.size();) {
      cut += static_cast<size_t>(next_code_point(text.substr(cut)).length);
      if (cut >= text.size()) break;
      const int32_t left = vocabulary_.find_bytes(text.substr(0, cut));
      if (left < 0 || !is_text(left)) continue;
      const int32_t right = vocabulary_.find_bytes(text.substr(cut));
      if (right >= 0 && is_text(right)) pairs_.push_back({left, right, id});
    }
    std::sort(pairs_.begin() + static_cast<std::ptrdiff_t>(first), pairs_.end(),
              [](const Pair& a, const Pair& b) {
                return std::pair(a.left, a.right) < std::pair(b.left, b.right);
              });
  }

  const Vocabulary& vocabulary_;
  const std::vector<std::string>& tokens_;
  std::vector<Pair> pairs_;
};

// Adds merges that produce each run of newlines that is a token, shorter runs first. The original
// tokenizer takes such a run as a whole regardless of merges.
void add_newline_merges(const Vocabulary& vocabulary, Parts& parts) {
  std::vector<std::string_view> runs;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view token = parts.tokens[static_cast<size_t>(id)];
    if (!token.empty() && !is_whole(vocabulary.type(id)) &&
        token.find_first_not_of('\n') == std::string_view::npos)
      runs.push_back(token);
  }
  std::ranges::sort(runs, {}, &std::string_view::size);
  std::set<std::pair<std::string_view, std::string_view>> known;
  for (const MergeText& merge : parts.merges) known.emplace(merge.left, merge.right);
  for (const std::string_view run : runs)
    for (const std::string_view left : runs) {
      if (left.size() >= run.size()) break;
      const std::string_view right = run.substr(left.size());
      const bool is_token = std::ranges::find(runs, right) != runs.end();
      if (is_token && known.emplace(left, right).second) parts.merges.push_back({left, right});
    }
}

// BPE on text in which spaces have become marks, with byte fallback.
Parts marked_parts(const ModelFile& file, const Tokenizer& tokenizer,
                   const PreTokenizerInfo& info) {
  const Metadata& metadata = file.metadata;
  Vocabulary vocabulary(metadata, false);
  resolve_special(metadata, {.add_bos = info.add_bos}, vocabulary);
  Parts parts;
  read_tokens(vocabulary, strips_after_special(metadata), parts);
  parts.merges = byte_level_merges(metadata, vocabulary, parts);
  if (info.newline_tokens) add_newline_merges(vocabulary, parts);
  const int32_t unknown = tokenizer.special().unknown;
  parts.model = bpe_model(true, false, unknown < 0 ? Json() : Json(tokenizer.token(unknown)));
  parts.normalizer = replace("String", " ", kSpaceMark);
  parts.pre_tokenizer = sequence("pretokenizers", splits_of(info));
  parts.decoder = mark_decoder(false);
  return parts;
}

// A token that is a run of spaces must match as a run of marks, because it is matched in text in
// which spaces have become marks.
void mark_space_runs(Parts& parts) {
  for (AddedToken& token : parts.added) {
    if (token.special || token.content.find_first_not_of(' ') != std::string::npos) continue;
    std::string marks;
    for (size_t i = 0; i < token.content.size(); ++i) marks += kSpaceMark;
    if (std::ranges::find(parts.tokens, marks) != parts.tokens.end()) continue;
    token.content = marks;
    token.normalized = true;
    parts.tokens[static_cast<size_t>(token.id)] = std::move(marks);
  }
}

Parts sentencepiece_parts(const ModelFile& file, const Tokenizer& tokenizer) {
  const Metadata& metadata = file.metadata;
  Vocabulary vocabulary(metadata, false);
  resolve_special(metadata, kSentencePieceDefaults, vocabulary);
  Parts parts;
  read_tokens(vocabulary, strips_after_special(metadata), parts);
  const bool prefix = tokenizer.adds_space();
  // If a space is added before each part, added tokens would get a space, too.
  if (!prefix) mark_space_runs(parts);
  parts.merges = ScoreMerges(vocabulary, parts.tokens).make();
  bool bytes = false;
  for (int32_t id = 0; id < vocabulary.size(); ++id)
    bytes |= vocabulary.type(id) == TokenType::kByte;
  const int32_t unknown = tokenizer.special().unknown;
  const bool has_unknown = unknown >= 0 && !parts.tokens[static_cast<size_t>(unknown)].empty();
  parts.model = bpe_model(bytes, false, has_unknown ? Json(tokenizer.token(unknown)) : Json());
  Json steps = Json::array();
  add_charsmap(charsmap_of(metadata), steps);
  if (metadata.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false))
    add_collapse(steps);
  if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(replace("String", " ", kSpaceMark));
  parts.normalizer = sequence("normalizers", std::move(steps));
  parts.decoder = mark_decoder(prefix);
  return parts;
}

Parts unigram_parts(const Metadata& metadata) {
  const SentencePieceModel model = read_sentencepiece(metadata);
  const Vocabulary vocabulary(metadata, false);
  Parts parts;
  read_tokens(vocabulary, false, parts);
  parts.scores = unigram_scores(model);
  const double worst = *std::ranges::min_element(parts.scores);
  for (size_t i = 0; i < parts.tokens.size(); ++i)
    if (parts.tokens[i].empty()) {  // the list must not have gaps
      parts.tokens[i] = fmt::format("[UNUSED{}]", i);
      parts.scores[i] = worst - 1e6;
    }
  const bool bytes = std::ranges::find(model.types, TokenType::kByte) != model.types.end();
  parts.model = {{"type", "Unigram"},
                 {"unk_id", model.unknown < 0 ? Json() : Json(model.unknown)},
                 {"byte_fallback", bytes}};
  Json steps = Json::array();
  add_charsmap(model.charsmap, steps);
  if (model.remove_extra) add_collapse(steps);
  parts.normalizer = sequence("normalizers", std::move(steps));
  parts.pre_tokenizer = {{"type", "Metaspace"},
                         {"replacement", kSpaceMark},
                         {"prepend_scheme", model.add_prefix ? "first" : "never"},
                         {"split", true}};
  parts.decoder = mark_decoder(true);
  return parts;
}

// Word starts begin with U+2581 in GGUF; in tokenizer.json other pieces begin with "##".
Parts word_piece_parts(const Metadata& metadata) {
  const Vocabulary vocabulary(metadata, false);
  const int64_t unknown = metadata.integer("tokenizer.ggml.unknown_token_id").value_or(100);
  Parts parts;
  read_tokens(vocabulary, false, parts);
  for (size_t i = 0; i < parts.tokens.size(); ++i) {
    std::string& token = parts.tokens[i];
    if (token.empty() || is_whole(vocabulary.type(static_cast<int32_t>(i)))) continue;
    if (token.starts_with(kSpaceMark))
      token.erase(0, kSpaceMark.size());
    else
      token.insert(0, "##");
  }
  parts.model = {{"type", "WordPiece"},
                 {"unk_token", vocabulary.written(static_cast<int32_t>(unknown))},
                 {"continuing_subword_prefix", "##"},
                 {"max_input_chars_per_word", 100}};
  parts.normalizer = {{"type", "BertNormalizer"},
                      {"clean_text", true},
                      {"handle_chinese_chars", true},
                      {"strip_accents", nullptr},
                      {"lowercase", true}};
  parts.pre_tokenizer = {{"type", "BertPreTokenizer"}};
  parts.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  return parts;
}

Parts parts_of(const ModelFile& file, const Tokenizer& tokenizer) {
  const std::string model = file.metadata.text("tokenizer.ggml.model").value_or("");
  if (model == "gemma4") return marked_parts(file, tokenizer, *find_pre_tokenizer(model));
  if (model == "gpt2") {
    const std::string pre = file.metadata.text("tokenizer.ggml.pre").value_or("default");
    return byte_level_parts(file, *find_pre_tokenizer(pre));
  }
  if (model == "llama") return sentencepiece_parts(file, tokenizer);
  if (model == "t5") return unigram_parts(file.metadata);
  if (model == "bert") return word_piece_parts(file.metadata);
  throw Error(ErrorKind::kUnsupported,
              "{}: tokenizer.ggml.model \"{}\" cannot be converted to a tokenizer.json", file.path,
              printable(model));
}

// Returns templates with BOS and EOS for single texts and pairs.
Json post_processor(const Tokenizer& tokenizer) {
  const Tokenizer::Special& special = tokenizer.special();
  const auto id = [](bool wanted, int32_t token) { return wanted ? token : -1; };
  const int32_t before = id(special.add_bos, special.bos), after = id(special.add_eos, special.eos);
  if (before < 0 && after < 0) return nullptr;
  Json named = Json::object();
  const auto around = [&](Json& list, const char* text, int type) {
    const auto add = [&](int32_t token) {
      if (token < 0) return;
      const std::string name = tokenizer.token(token);
      list.push_back({{"SpecialToken", {{"id", name}, {"type_id", type}}}});
      named[name] = {{"id", name}, {"ids", {token}}, {"tokens", {name}}};
    };
    add(before);
    list.push_back({{"Sequence", {{"id", text}, {"type_id", type}}}});
    add(after);
  };
  Json single = Json::array(), pair = Json::array();
  around(single, "A", 0);
  around(pair, "A", 0);
  around(pair, "B", 1);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(named)}};
}

Json added_json(const std::vector<AddedToken>& added) {
  Json list = Json::array();
  for (const AddedToken& token : added)
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  return list;
}

std::string in_quotes(std::string_view text) { return dump_json(Json(text)); }

// Large lists are written directly as text, because inserting into a Json object takes linear time
// per key.
std::string vocabulary_text(const Parts& parts) {
  std::string out;
  const bool scored = !parts.scores.empty();
  out += scored ? "[" : "{";
  const char* gap = "\n";
  for (size_t i = 0; i < parts.tokens.size(); ++i) {
    const std::string& token = parts.tokens[i];
    if (token.empty()) continue;
    out += gap;
    gap = ",\n";
    if (scored)
      out += fmt::format("[{},{}]", in_quotes(token), dump_json(Json(parts.scores[i])));
    else
      out += fmt::format("{}:{}", in_quotes(token), i);
  }
  return out + (scored ? "\n]" : "\n}");
}

std::string merges_text(const Parts& parts) {
  std::string out = "[";
  const char* gap = "\n";
  for (const MergeText& merge : parts.merges) {
    out += fmt::format("{}[{},{}]", gap, in_quotes(merge.left), in_quotes(merge.right));
    gap = ",\n";
  }
  return out + "\n]";
}

}  // namespace

std::string tokenizer_json(const ModelFile& file, const Tokenizer& tokenizer) {
  const Parts parts = parts_of(file, tokenizer);
  Json whole = {{"version", "1.0"},
                {"truncation", nullptr},
                {"padding", nullptr},
                {"added_tokens", added_json(parts.added)},
                {"normalizer", parts.normalizer},
                {"pre_tokenizer", parts.pre_tokenizer},
                {"post_processor", post_processor(tokenizer)},
                {"decoder", parts.decoder}};
  std::string out = dump_json(whole, 1);
  out.erase(out.rfind("\n}"));
  std::string model = dump_json(parts.model, 1);
  model.erase(model.rfind("\n}"));
  out += fmt::format(",\n\"model\": {},\n\"vocab\": {}", model, vocabulary_text(parts));
  if (parts.model["type"] == "BPE") out += fmt::format(",\n\"merges\": {}", merges_text(parts));
  return out + "\n}\n}\n";
}

Json tokenizer_config(const ModelFile& file, const Tokenizer& tokenizer) {
  const Tokenizer::Special& special = tokenizer.special();
  Json config = {{"add_bos_token", special.add_bos && special.bos >= 0},
                 {"add_eos_token", special.add_eos && special.eos >= 0}};
  const std::pair<const char*, int32_t> roles[] = {{"bos_token", special.bos},
                                                   {"eos_token", special.eos},
                                                   {"unk_token", special.unknown},
                                                   {"pad_token", special.pad}};
  for (const auto& [key, id] : roles)
    if (id >= 0) config[key] = tokenizer.token(id);
  config["clean_up_tokenization_spaces"] = false;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  const Metadata& metadata = file.metadata;
  const ChatTemplateSources templates = chat_templates_of(metadata);
  Json named = Json::array();
  for (const auto& [name, source] : templates.named)
    named.push_back({{"name", name}, {"template", source}});
  if (!templates.standard.empty() && !named.empty())
    named.push_front(Json::object({{"name", "default"}, {"template", templates.standard}}));
  if (!named.empty())
    config["chat_template"] = std::move(named);
  else if (!templates.standard.empty())
    config["chat_template"] = templates.standard;
  return config;
}

}  // namespace veery
