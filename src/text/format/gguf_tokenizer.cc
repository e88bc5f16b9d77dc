#include "text/format/gguf_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "base/utf8.h"
#include "text/common/base64.h"
#include "text/common/json_fields.h"
#include "text/format/sentencepiece_model.h"
#include "text/format/tiktoken_file.h"
#include "text/format/tokenizer_folder.h"
#include "text/format/tokenizer_text.h"
#include "text/format/world_vocabulary.h"
#include "text/pipeline/token_decoder.h"
#include "text/special_tokens.h"
#include "text/split/pre_tokenizer.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

// The text processing of a tokenizer.json, as far as GGUF can represent it.
struct Preparation {
  bool compose = false;     // normalise to NFC
  bool marks = false;       // replace spaces by U+2581
  bool prefix = false;      // add a space before the text
  bool collapse = false;    // collapse runs of spaces
  bool trim = false;        // strip spaces at the ends
  bool lowercase = false;   // BERT's text cleaning
  bool bytes = false;       // words use the byte alphabet
  bool bert_words = false;  // split into words like BERT
  std::string charsmap;
  std::vector<std::string> patterns;
};

[[noreturn]] void refuse(const char* part, const Json& json) {
  throw Error(ErrorKind::kUnsupported, "tokenizer.json: GGUF cannot represent the {} {}", part,
              printable(dump_json(json), 200));
}

// Visits a component, or the components of a Sequence.
template <typename Visit>
void for_each_component(const Json& json, const char* list, const Visit& visit) {
  if (json.is_null()) return;
  if (json_text(json, "type") != "Sequence") return visit(json);
  for (const Json& part : json_array(json, list)) for_each_component(part, list, visit);
}

bool is_plain(const Json& json, std::string_view text) {
  return json_plain_pattern(json, "pattern") == std::string(text);
}

bool is_regex(const Json& json, std::string_view text) {
  const auto pattern = json.find("pattern");
  return pattern != json.end() && pattern->is_object() && pattern->contains("Regex") &&
         (*pattern)["Regex"] == text;
}

// Returns whether a Replace component collapses runs of spaces into one.
bool is_space_collapse(const Json& json) {
  const std::string content = json_text(json, "content");
  return is_regex(json, kSpaceRuns) && (content == " " || content == kSpaceMark);
}

void read_normalizer(const Json& json, Preparation& out) {
  const std::string type = json_text(json, "type");
  if (type == "NFC") {
    out.compose = true;
  } else if (type == "Prepend" && json_text(json, "prepend") == kSpaceMark) {
    out.prefix = true;
  } else if (type == "Replace" && is_plain(json, " ") && json_text(json, "content") == kSpaceMark) {
    out.marks = true;
  } else if (type == "Replace" && is_space_collapse(json)) {
    out.collapse = true;
  } else if (type == "Replace" && is_regex(json, kEdgeSpaces) &&
             json_text(json, "content").empty()) {
    out.trim = true;
  } else if (type == "Precompiled") {
    const auto bytes = decode_base64(json_text(json, "precompiled_charsmap", ""));
    if (!bytes) refuse("normalizer", json);
    out.charsmap = *bytes;
  } else if (type == "BertNormalizer" && json_bool(json, "clean_text", true) &&
             json_bool(json, "handle_chinese_chars", true) && json_bool(json, "lowercase", true) &&
             json_bool(json, "strip_accents").value_or(true)) {
    out.lowercase = true;
  } else {
    refuse("normalizer", json);
  }
}

constexpr std::string_view kDigit = R"(\p{N})", kDigits = R"(\p{N}+)";

void read_splitter(const Json& json, Preparation& out) {
  const std::string type = json_text(json, "type");
  if (type == "ByteLevel" && !json_bool(json, "add_prefix_space", true)) {
    if (json_bool(json, "use_regex", true))
      out.patterns.emplace_back(find_pre_tokenizer("gpt-2")->patterns[0]);
    out.bytes = true;
  } else if (type == "Digits") {
    out.patterns.emplace_back(json_bool(json, "individual_digits", false) ? kDigit : kDigits);
  } else if (type == "Split" && is_plain(json, " ") &&
             json_text(json, "behavior", "") == "MergedWithPrevious") {
    // If spaces have become marks, this step has no effect.
    if (!out.marks) refuse("pre_tokenizer", json);
  } else if (type == "Split" && json_member(json, "pattern").contains("Regex") &&
             (json_text(json, "behavior", "Isolated") == "Isolated" ||
              (json_text(json, "behavior", "") == "Removed" && json_bool(json, "invert", false)))) {
    out.patterns.push_back(json_text(json_member(json, "pattern"), "Regex"));
  } else if (type == "Metaspace" && json_text(json, "replacement", kSpaceMark) == kSpaceMark) {
    const bool otherwise = json_bool(json, "add_prefix_space", true);
    out.marks = true;
    out.prefix |= json_text(json, "prepend_scheme", otherwise ? "always" : "never") != "never";
  } else if (type == "BertPreTokenizer") {
    out.bert_words = true;
  } else if (type != "WhitespaceSplit" || out.charsmap.empty()) {
    refuse("pre_tokenizer", json);
  }
}

Preparation read_preparation(const TokenizerText& text) {
  Preparation result;
  for_each_component(text.normalizer, "normalizers",
                     [&](const Json& json) { read_normalizer(json, result); });
  for_each_component(text.pre_tokenizer, "pretokenizers",
                     [&](const Json& json) { read_splitter(json, result); });
  if (result.trim && !result.collapse) refuse("normalizer", text.normalizer);
  return result;
}

// Returns the pattern with escapes replaced by the characters that they denote.
std::string spelled_out(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    uint32_t code = 0;
    if (rest.starts_with("\\x{")) {
      const auto [end, error] =
          std::from_chars(rest.data() + 3, rest.data() + rest.size(), code, 16);
      append_utf8(out, code);
      i += static_cast<size_t>(end - rest.data());
    } else if (rest.starts_with("\\r") || rest.starts_with("\\n") || rest.starts_with("\\t")) {
      out += rest[1] == 'r' ? '\r' : rest[1] == 'n' ? '\n' : '\t';
      ++i;
    } else if (rest[0] == '\\' && rest.size() > 1) {
      out += rest.substr(0, 2);
      ++i;
    } else {
      out += rest[0];
    }
  }
  return out;
}

bool same_patterns(std::span<const std::string_view> known, const std::vector<std::string>& found) {
  return std::ranges::equal(known, found, [](std::string_view a, std::string_view b) {
    return spelled_out(a) == spelled_out(b);
  });
}

// Returns the value of tokenizer.ggml.pre. If no row also matches ignore_merges, uses a row that
// differs only in that: it matters only for tokens that no merges produce.
std::string_view name_of(const Preparation& p, bool ignore_merges) {
  for (const bool exact : {true, false})
    for (const PreTokenizerInfo& row : all_pre_tokenizers())
      if (!row.plain_bytes && row.compose == p.compose && same_patterns(row.patterns, p.patterns) &&
          (!exact || row.ignore_merges == ignore_merges))
        return row.name;
  std::string found;
  for (const std::string& pattern : p.patterns) found += (found.empty() ? "" : ", ") + pattern;
  throw Error(ErrorKind::kUnsupported,
              "tokenizer.json: tokenizer.ggml.pre of GGUF has no value for the patterns {}{}",
              printable(found, 300), p.compose ? " in NFC" : "");
}

// The lists of a GGUF vocabulary, indexed by id.
struct Lists {
  std::vector<std::string> tokens;
  std::vector<int64_t> types;
  std::vector<double> scores;

  void set_type(int64_t id, TokenType type) {
    types[static_cast<size_t>(id)] = static_cast<int64_t>(type);
  }
};

Lists read_lists(std::span<const AddedToken> added, const Tokenizer& tokenizer) {
  Lists lists;
  for (int32_t id = 0; id < tokenizer.size(); ++id) lists.tokens.push_back(tokenizer.token(id));
  lists.types.assign(lists.tokens.size(), static_cast<int64_t>(TokenType::kNormal));
  for (size_t i = 0; i < lists.tokens.size(); ++i)
    if (lists.tokens[i].empty()) lists.set_type(static_cast<int64_t>(i), TokenType::kUnused);
  for (const AddedToken& token : added)
    if (const auto id = tokenizer.find(token.content))
      lists.set_type(*id, token.special ? TokenType::kControl : TokenType::kUserDefined);
  return lists;
}

void set_byte_level(const Preparation& p, bool ignore_merges, std::span<const MergeText> merges,
                    Metadata& metadata) {
  std::vector<std::string> texts;
  for (const MergeText& merge : merges)
    texts.push_back(fmt::format("{} {}", merge.left, merge.right));
  metadata.set("tokenizer.ggml.model", std::string("gpt2"));
  metadata.set("tokenizer.ggml.pre", std::string(name_of(p, ignore_merges)));
  metadata.set_texts("tokenizer.ggml.merges", std::move(texts));
}

void add_byte_level(const TokenModelText& model, const Preparation& p, Metadata& metadata) {
  if (!p.bytes || p.marks || p.prefix || p.collapse || !p.charsmap.empty() || p.lowercase ||
      p.bert_words || !model.prefix.empty() || !model.suffix.empty())
    throw Error(
        ErrorKind::kUnsupported,
        "tokenizer.json: GGUF cannot represent byte-level BPE with further text processing");
  set_byte_level(p, model.ignore_merges, model.merges, metadata);
}

// Converts ranked merges to scores: the earlier the first merge that produces a token, the higher
// its score.
void add_scores(const TokenModelText& model, Lists& lists) {
  std::map<std::string_view, size_t> ids;
  for (size_t i = 0; i < lists.tokens.size(); ++i) ids.emplace(lists.tokens[i], i);
  constexpr double kNeverMade = -1e9;
  lists.scores.assign(lists.tokens.size(), kNeverMade);
  double next = 0;
  for (const MergeText& merge : model.merges) {
    const auto made = ids.find(std::string(merge.left) + std::string(merge.right));
    if (made != ids.end() && lists.scores[made->second] == kNeverMade)
      lists.scores[made->second] = -next++;
  }
}

void mark_bytes_and_unknown(const TokenModelText& model, Lists& lists) {
  for (size_t i = 0; i < lists.tokens.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    if (byte_of_token(lists.tokens[i]) >= 0) lists.set_type(id, TokenType::kByte);
    if (!model.unknown.empty() && lists.tokens[i] == model.unknown)
      lists.set_type(id, TokenType::kUnknown);
  }
}

void add_spaces(const Preparation& p, Metadata& metadata) {
  metadata.set("tokenizer.ggml.add_space_prefix", p.prefix);
  metadata.set("tokenizer.ggml.remove_extra_whitespaces", p.collapse);
  if (!p.charsmap.empty()) {
    std::vector<int64_t> bytes;
    for (const char c : p.charsmap) bytes.push_back(static_cast<unsigned char>(c));
    metadata.set("tokenizer.ggml.precompiled_charsmap", std::move(bytes));
  }
}

void add_sentencepiece(const TokenModelText& model, const Preparation& p, Lists& lists,
                       Metadata& metadata) {
  if (!p.marks || p.bytes || !p.patterns.empty() || p.compose || p.lowercase || p.bert_words)
    throw Error(ErrorKind::kUnsupported,
                "tokenizer.json: GGUF can represent BPE with byte fallback only in the form of "
                "SentencePiece, where spaces become U+2581");
  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.pre", std::string("default"));
  add_scores(model, lists);
  mark_bytes_and_unknown(model, lists);
  add_spaces(p, metadata);
}

void add_unigram(const TokenModelText& model, const Preparation& p, Lists& lists,
                 Metadata& metadata) {
  if (!p.marks || p.bytes || !p.patterns.empty() || p.compose || p.lowercase || p.bert_words)
    throw Error(ErrorKind::kUnsupported,
                "tokenizer.json: GGUF can represent a unigram model only in the form of "
                "SentencePiece");
  metadata.set("tokenizer.ggml.model", std::string("t5"));
  metadata.set("tokenizer.ggml.pre", std::string("default"));
  lists.scores.assign(lists.tokens.size(), 0);
  for (size_t i = 0; i < model.scored.size() && i < lists.scores.size(); ++i)
    lists.scores[i] = model.scored[i].score;
  mark_bytes_and_unknown(model, lists);
  if (model.unknown_id >= 0) lists.set_type(model.unknown_id, TokenType::kUnknown);
  add_spaces(p, metadata);
}

// In GGUF, pieces at the start of a word begin with U+2581, and other pieces have no mark.
void add_word_pieces(const TokenModelText& model, const Preparation& p, Lists& lists,
                     Metadata& metadata) {
  const std::string prefix = model.has_prefix ? model.prefix : "##";
  if (!p.lowercase || !p.bert_words || prefix.empty())
    throw Error(
        ErrorKind::kUnsupported,
        "tokenizer.json: GGUF can represent WordPiece only in the form of BERT (lower case)");
  metadata.set("tokenizer.ggml.model", std::string("bert"));
  metadata.set("tokenizer.ggml.pre", std::string("default"));
  const auto unknown = std::ranges::find(lists.tokens, model.unknown);
  if (!model.unknown.empty() && unknown != lists.tokens.end())
    metadata.set("tokenizer.ggml.unknown_token_id", int64_t{unknown - lists.tokens.begin()});
  for (size_t i = 0; i < lists.tokens.size(); ++i) {
    std::string& token = lists.tokens[i];
    if (lists.types[i] != static_cast<int64_t>(TokenType::kNormal)) continue;
    if (token.starts_with(prefix))
      token.erase(0, prefix.size());
    else
      token.insert(0, kSpaceMark);
  }
}

void add_model(const TokenizerText& text, Lists& lists, Metadata& metadata) {
  const Preparation p = read_preparation(text);
  const std::string& type = text.model.type;
  if (type == "BPE" && !text.model.byte_fallback) return add_byte_level(text.model, p, metadata);
  if (type == "BPE") return add_sentencepiece(text.model, p, lists, metadata);
  if (type == "Unigram") return add_unigram(text.model, p, lists, metadata);
  if (type == "WordPiece") return add_word_pieces(text.model, p, lists, metadata);
  throw Error(ErrorKind::kUnsupported, "tokenizer.json: GGUF cannot represent a model of type {}",
              type);
}

// Determines the special tokens that encode() adds around a text.
void add_around(const Tokenizer& tokenizer, Tokenizer::Special& special, Metadata& metadata) {
  const std::vector<int32_t> plain = tokenizer.encode("a", {.add_special = false});
  std::vector<int32_t> whole = tokenizer.encode("a");
  const auto text = std::ranges::search(whole, plain);
  const std::vector<int32_t> before(whole.begin(), text.begin()), after(text.end(), whole.end());
  if (before.size() > 1 || after.size() > 1)
    throw Error(
        ErrorKind::kUnsupported,
        "the tokenizer adds {} tokens before and {} after a text, GGUF can represent one each",
        before.size(), after.size());
  if (!before.empty()) special.bos = before[0];
  if (!after.empty()) special.eos = after[0];
  metadata.set("tokenizer.ggml.add_bos_token", !before.empty());
  metadata.set("tokenizer.ggml.add_eos_token", !after.empty());
}

void add_roles(const Tokenizer& tokenizer, int64_t rows, Metadata& metadata, bool around) {
  Tokenizer::Special special = tokenizer.special();
  if (around) {
    add_around(tokenizer, special, metadata);
  } else {
    for (const char* key : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"})
      metadata.set(key, false);
  }
  std::vector<int32_t> ends = special.ends;
  if (special.eos < 0 && !ends.empty()) special.eos = ends.front();
  std::erase(ends, special.eos);
  std::erase(ends, special.eot);
  const std::pair<const char*, int32_t> roles[] = {
      {"bos", special.bos},
      {"eos", special.eos},
      {"unknown", special.unknown},
      {"padding", special.pad},
      {"eot", special.eot == special.eos ? -1 : special.eot},
      {"eom", ends.empty() ? -1 : ends.front()}};
  for (const auto& [role, id] : roles)
    if (const std::string key = fmt::format("tokenizer.ggml.{}_token_id", role);
        id >= 0 && id < rows && metadata.find(key) == nullptr)
      metadata.set(key, int64_t{id});
}

// Adjusts the lists to one token per row of the embedding.
void fit(int64_t rows, Lists& lists) {
  const auto count = static_cast<size_t>(rows);
  lists.tokens.resize(count);
  lists.types.resize(count, static_cast<int64_t>(TokenType::kUnused));
  if (!lists.scores.empty()) lists.scores.resize(count, -1e9);
  for (size_t i = 0; i < count; ++i)
    if (lists.tokens[i].empty()) lists.tokens[i] = fmt::format("[PAD{}]", i);
}

void add_templates(const std::string& folder, Metadata& metadata) {
  const ChatTemplateSources templates = load_chat_templates(folder);
  if (!templates.standard.empty()) metadata.set("tokenizer.chat_template", templates.standard);
  std::vector<std::string> names;
  for (const auto& [name, source] : templates.named) {
    names.push_back(name);
    metadata.set("tokenizer.chat_template." + name, source);
  }
  if (!names.empty()) metadata.set_texts("tokenizer.chat_templates", std::move(names));
}

Lists lists_of_json(const MappedFile& file, const Tokenizer& tokenizer, Metadata& metadata) {
  const TokenizerText parts(file, file.path());
  Lists lists = read_lists(parts.added, tokenizer);
  add_model(parts, lists, metadata);
  return lists;
}

Lists lists_of_tiktoken(std::string_view text, const std::string& path, const Tokenizer& tokenizer,
                        Metadata& metadata) {
  const TiktokenModel model = read_tiktoken(text, path);
  const std::vector<std::string_view> tokens(model.tokens.begin(), model.tokens.end());
  const Vocabulary vocabulary(tokens, {}, true);
  Preparation p;
  for (const std::string_view pattern : find_pre_tokenizer(model.rule)->patterns)
    p.patterns.emplace_back(pattern);
  set_byte_level(p, true, tiktoken_merges(model, vocabulary), metadata);
  return read_lists(read_added_tokens(fs::path(path).parent_path().string()), tokenizer);
}

Lists lists_of_sentencepiece(std::string_view bytes, const std::string& path, Metadata& metadata) {
  SentencePieceModel model = read_sentencepiece(bytes, path);
  for (const AddedToken& token : read_added_tokens(fs::path(path).parent_path().string()))
    model.add(token);
  const bool merges = model.kind == SentencePieceModel::Kind::kBpe;
  metadata.set("tokenizer.ggml.model", std::string(merges ? "llama" : "t5"));
  metadata.set("tokenizer.ggml.pre", std::string("default"));
  Preparation p;
  p.prefix = model.add_prefix;
  p.collapse = model.remove_extra;
  p.charsmap = std::move(model.charsmap);
  add_spaces(p, metadata);
  Lists lists{std::move(model.tokens), {}, std::move(model.scores)};
  for (const TokenType type : model.types) lists.types.push_back(static_cast<int64_t>(type));
  return lists;
}

Lists lists_of_world(std::string_view text, const std::string& path, Metadata& metadata) {
  WorldVocabulary vocabulary = read_world_vocabulary(text, path);
  metadata.set("tokenizer.ggml.model", std::string("rwkv"));
  return {std::move(vocabulary.tokens), std::move(vocabulary.types), {}};
}

// Rejects vocabulary formats that are not supported.
void refuse_other_forms(const std::string& folder) {
  for (const char* name : {"tekken.json", "vocab.json", "vocab.txt"})
    if (path_exists(folder + "/" + name))
      throw Error(ErrorKind::kUnsupported,
                  "{}: converting the tokenizer {} is not supported; expected tokenizer.json, "
                  "tokenizer.model or *.tiktoken",
                  folder, name);
}

}  // namespace

void add_gguf_tokenizer(const std::string& folder, int64_t rows, Metadata& metadata, bool around) {
  add_templates(folder, metadata);
  const std::string path = find_tokenizer(folder);
  if (path.empty()) {
    refuse_other_forms(folder);
    metadata.set("tokenizer.ggml.model", std::string("none"));
    return;
  }
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer_folder(folder);
  const MappedFile file(path, kTokenizerFile);
  const std::string_view text = file.text();
  Lists lists = path.ends_with(".json")     ? lists_of_json(file, *tokenizer, metadata)
                : is_world_vocabulary(text) ? lists_of_world(text, path, metadata)
                : is_tiktoken(text)         ? lists_of_tiktoken(text, path, *tokenizer, metadata)
                                            : lists_of_sentencepiece(text, path, metadata);
  add_roles(*tokenizer, rows, metadata, around);
  fit(rows, lists);
  metadata.set_texts("tokenizer.ggml.tokens", std::move(lists.tokens));
  metadata.set("tokenizer.ggml.token_type", std::move(lists.types));
  if (!lists.scores.empty()) metadata.set("tokenizer.ggml.scores", std::move(lists.scores));
}

}  // namespace veery
