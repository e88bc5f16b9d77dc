#include "text/format/tokenizer_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "text/common/json_fields.h"
#include "text/format/sentencepiece_model.h"
#include "text/format/tiktoken_file.h"
#include "text/format/tokenizer_json.h"
#include "text/format/world_vocabulary.h"
#include "text/special_tokens.h"
#include "text/subword/greedy_tokenizer.h"
#include "text/subword/sentencepiece_bpe.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kMostTokens = 1 << 22;

// Returns the given members of a JSON file, or {} if the file does not exist. Skips other members.
Json read_members(const fs::path& path, std::initializer_list<std::string_view> keys) {
  Json members = Json::object();
  if (!path_exists(path.string())) return members;
  const MappedFile file(path.string(), kConfigFile);
  JsonReader reader(file, path.string());
  reader.begin_object();
  for (std::string_view key; reader.next_key(key);) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      reader.skip();
    else
      members[std::string(key)] = reader.value();
  }
  reader.finish();
  return members;
}

// Returns the text of "<s>" or {"content": "<s>", ...}.
std::optional<std::string> token_text(const Json& members, const char* key) {
  const auto at = members.find(key);
  if (at == members.end()) return std::nullopt;
  const Json& value = at->is_object() && at->contains("content") ? (*at)["content"] : *at;
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

// Appends one id or a list of ids.
void append_ids(const Json& members, const char* key, std::vector<int64_t>& out) {
  const auto at = members.find(key);
  if (at == members.end()) return;
  const auto append = [&](const Json& id) {
    if (id.is_integer_in(0, INT32_MAX)) out.push_back(id.get<int64_t>());
  };
  if (at->is_array())
    for (const Json& id : *at) append(id);
  else
    append(*at);
}

using FindToken = std::function<std::optional<int32_t>(std::string_view)>;

// Adds the roles that the files beside the tokenizer specify.
void read_roles(const fs::path& folder, const FindToken& find, Metadata& roles) {
  constexpr std::pair<const char*, const char*> kTokens[] = {
      {"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"}};
  const Json map = read_members(folder / "special_tokens_map.json",
                                {"bos_token", "eos_token", "unk_token", "pad_token"});
  const Json config = read_members(
      folder / "tokenizer_config.json",
      {"bos_token", "eos_token", "unk_token", "pad_token", "add_bos_token", "add_eos_token"});
  for (const Json* members : {&map, &config})
    for (const auto& [key, role] : kTokens)
      if (const auto text = token_text(*members, key))
        if (const auto id = find(*text)) roles.set(role, int64_t{*id});
  for (const auto& [key, role] : {std::pair("add_bos_token", "tokenizer.ggml.add_bos_token"),
                                  std::pair("add_eos_token", "tokenizer.ggml.add_eos_token")}) {
    const auto at = config.find(key);
    if (at != config.end() && at->is_boolean()) roles.set(role, at->get<bool>());
  }
  std::vector<int64_t> ends;
  for (const char* file : {"generation_config.json", "config.json"})
    append_ids(read_members(folder / file, {"eos_token_id"}), "eos_token_id", ends);
  if (ends.empty()) return;
  roles.set(kEndIdsKey, std::move(ends));
  roles.set("tokenizer.chat_template", load_chat_templates(folder.string()).standard);
}

// truncation_side of tokenizer_config.json overrides tokenizer.json.
void read_truncation_side(const fs::path& folder, bool& keeps_end) {
  const Json config = read_members(folder / "tokenizer_config.json", {"truncation_side"});
  const auto side = config.find("truncation_side");
  if (side == config.end() || side->is_null()) return;
  if (*side != "left" && *side != "right")
    throw Error(ErrorKind::kFormat, "{}: truncation_side is {}, expected \"left\" or \"right\"",
                (folder / "tokenizer_config.json").string(), printable(dump_json(*side), 60));
  keeps_end = *side == "left";
}

// In the order in which transformers adds them.
constexpr std::string_view kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};

AddedToken special_token(const Json& value) {
  AddedToken token{.content = value.is_string() ? value.get<std::string>() : "", .special = true};
  if (!value.is_object()) return token;
  token.content = json_text(value, "content", "");
  token.lstrip = json_bool(value, "lstrip", false);
  token.rstrip = json_bool(value, "rstrip", false);
  token.single_word = json_bool(value, "single_word", false);
  token.normalized = json_bool(value, "normalized", false);
  return token;
}

// Returns the special tokens of a file: first those with a name ("pad_token" ...), then those in
// lists.
std::vector<AddedToken> named_tokens(const Json& members) {
  std::vector<AddedToken> tokens;
  const auto add = [&](const Json& value) { tokens.push_back(special_token(value)); };
  for (const std::string_view key : kNamedTokens)
    if (const auto at = members.find(std::string(key)); at != members.end()) add(*at);
  const auto is_named = [](const std::string& key) {
    return std::ranges::find(kNamedTokens, key) != std::end(kNamedTokens);
  };
  for (const auto& [key, value] : members.items())
    if (key.ends_with("_token") && value.is_string() && !is_named(key)) add(value);
  auto extra = members.find("extra_special_tokens");
  if (extra == members.end()) extra = members.find("additional_special_tokens");
  if (extra == members.end()) return tokens;
  if (extra->is_array())
    for (const Json& value : *extra) add(value);
  else if (extra->is_object())
    for (const auto& [key, value] : extra->items()) add(value);
  return tokens;
}

// Returns the legacy list of added tokens {"<x>": id}, ordered by id.
std::vector<AddedToken> legacy_tokens(const fs::path& path, std::span<const AddedToken> named) {
  std::vector<AddedToken> tokens;
  if (!path_exists(path.string())) return tokens;
  const MappedFile file(path.string(), kConfigFile);
  const Json members = parse_json(file.text(), path.string());
  if (!members.is_object()) return tokens;
  for (const auto& [content, id] : members.items()) {
    if (!id.is_integer_in(0, kMostTokens)) continue;
    const bool special = std::ranges::find(named, content, &AddedToken::content) != named.end();
    tokens.push_back(
        {.content = content, .id = id.get<int32_t>(), .normalized = !special, .special = special});
  }
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  return tokens;
}

// Returns the tokens that transformers adds to a tokenizer.json, in its order: added_tokens_decoder
// of tokenizer_config.json, or the files that older versions wrote instead; then special tokens by
// name that are not in these lists.
TokensBeside tokens_beside(const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  Json config = Json::object();
  if (path_exists(path.string())) {
    const MappedFile file(path.string(), kConfigFile);
    config = parse_json(file.text(), path.string());
    if (!config.is_object()) config = Json::object();
  }
  const bool listed = config.contains("added_tokens_decoder");
  if (const fs::path map = folder / "special_tokens_map.json";
      !listed && path_exists(map.string())) {
    const MappedFile file(map.string(), kConfigFile);
    const Json members = parse_json(file.text(), map.string());
    if (members.is_object())
      for (const auto& [key, value] : members.items()) config[key] = value;
  }
  std::vector<AddedToken> named = named_tokens(config);
  std::vector<AddedToken> tokens = listed ? read_added_tokens(folder.string())
                                          : legacy_tokens(folder / "added_tokens.json", named);
  return {std::move(tokens), std::move(named)};
}

// encode() returns the same ids as Hugging Face's tokenizers library, which defines the format.
std::unique_ptr<Tokenizer> load_json(const fs::path& path) {
  const MappedFile file(path.string(), kTokenizerFile);
  Pipeline pipeline = read_tokenizer_json(file, path.string(), tokens_beside(path.parent_path()));
  Metadata roles = roles_of(pipeline);
  read_roles(
      path.parent_path(), [&](std::string_view text) { return find_token(pipeline, text); }, roles);
  read_truncation_side(path.parent_path(), pipeline.keeps_end);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

// Adds BOS and EOS if the files beside the model enable them. The SentencePiece model itself does
// not specify them.
void add_special_around(const Metadata& roles, int64_t bos, int64_t eos, Pipeline& pipeline) {
  Metadata settings = roles;
  if (!settings.find("tokenizer.ggml.add_bos_token"))
    settings.set("tokenizer.ggml.add_bos_token", false);
  if (!settings.find("tokenizer.ggml.add_eos_token"))
    settings.set("tokenizer.ggml.add_eos_token", false);
  pipeline.post = special_around(
      settings, settings.integer("tokenizer.ggml.bos_token_id").value_or(bos),
      settings.integer("tokenizer.ggml.eos_token_id").value_or(eos), PairForm::kSeparated);
}

std::unique_ptr<Tokenizer> load_tiktoken(const fs::path& path, std::string_view text) {
  Pipeline pipeline = tiktoken_pipeline(read_tiktoken(text, path.string()),
                                        read_added_tokens(path.parent_path().string()));
  Metadata roles;
  read_roles(
      path.parent_path(), [&](std::string_view token) { return find_token(pipeline, token); },
      roles);
  add_special_around(roles, -1, -1, pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

std::unique_ptr<Tokenizer> load_sentencepiece(const fs::path& path, std::string_view bytes) {
  SentencePieceModel model = read_sentencepiece(bytes, path.string());
  for (const AddedToken& token : read_added_tokens(path.parent_path().string())) model.add(token);
  Metadata roles = sentencepiece_metadata(model);
  read_roles(
      path.parent_path(),
      [&](std::string_view text) -> std::optional<int32_t> {
        const auto at = std::find(model.tokens.begin(), model.tokens.end(), text);
        if (at == model.tokens.end()) return std::nullopt;
        return static_cast<int32_t>(at - model.tokens.begin());
      },
      roles);
  if (model.kind == SentencePieceModel::Kind::kBpe) {
    return std::make_unique<SentencePieceBpe>(roles);
  }
  Pipeline pipeline = unigram_pipeline(model);
  add_special_around(roles, model.bos, model.eos, pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

// The files beside the vocabulary list the end of a text as an id; GGUF stores it as EOS.
std::unique_ptr<Tokenizer> load_world(const fs::path& path, std::string_view text) {
  WorldVocabulary vocabulary = read_world_vocabulary(text, path.string());
  Metadata roles;
  read_roles(
      path.parent_path(), [](std::string_view) { return std::nullopt; }, roles);
  constexpr const char* kEnd = "tokenizer.ggml.eos_token_id";
  if (const auto* ends = roles.integers(kEndIdsKey); ends && !roles.find(kEnd))
    roles.set(kEnd, ends->front());
  roles.set_texts("tokenizer.ggml.tokens", std::move(vocabulary.tokens));
  roles.set("tokenizer.ggml.token_type", std::move(vocabulary.types));
  return std::make_unique<GreedyTokenizer>(roles);
}

// Loads a SentencePiece model, tiktoken ranks stored under the same name, or an RWKV vocabulary.
std::unique_ptr<Tokenizer> load_model(const fs::path& path) {
  const MappedFile file(path.string(), kTokenizerFile);
  const std::string_view bytes = file.text();
  if (is_world_vocabulary(bytes)) return load_world(path, bytes);
  return is_tiktoken(bytes) ? load_tiktoken(path, bytes) : load_sentencepiece(path, bytes);
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const std::string& folder) {
  const Json config =
      read_members(fs::path(folder) / "tokenizer_config.json", {"added_tokens_decoder"});
  std::vector<AddedToken> tokens;
  if (!config.contains("added_tokens_decoder")) return tokens;
  for (const auto& [id, token] : config["added_tokens_decoder"].items()) {
    int32_t number = -1;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    if (error != std::errc() || end != id.data() + id.size() || number < 0)
      throw Error(ErrorKind::kFormat, "added_tokens_decoder: \"{}\" is not the id of a token",
                  printable(id));
    tokens.push_back(
        {.content = json_text(token, "content"),
         .id = number,
         .lstrip = json_bool(token, "lstrip", false),
         .rstrip = json_bool(token, "rstrip", false),
         .single_word = json_bool(token, "single_word", false),
         .normalized = json_bool(token, "normalized", !json_bool(token, "special", false)),
         .special = json_bool(token, "special", false)});
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  if (!tokens.empty() && tokens.back().id > kMostTokens)
    throw Error(ErrorKind::kLimit, "added_tokens_decoder: id {}, expected at most {}",
                tokens.back().id, kMostTokens);
  return tokens;
}

std::string find_tokenizer(const std::string& folder) {
  const fs::path base(folder);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "tiktoken.model"})
    if (path_exists((base / name).string())) return (base / name).string();
  if (is_folder(folder))
    for (const std::string& name : list_folder(folder))
      if (name.ends_with(".tiktoken") || (name.starts_with("rwkv_vocab") && name.ends_with(".txt")))
        return (base / name).string();
  return "";
}

bool is_tokenizer_file(const std::string& path) {
  return path.ends_with(".json") || path.ends_with(".model") || path.ends_with(".tiktoken");
}

std::unique_ptr<Tokenizer> load_tokenizer_folder(const std::string& path) {
  const fs::path file = is_folder(path) ? find_tokenizer(path) : path;
  if (file.empty())
    throw Error(ErrorKind::kNotFound, "{}: found neither tokenizer.json nor tokenizer.model", path);
  return file.extension() == ".json" ? load_json(file) : load_model(file);
}

ChatTemplateSources load_chat_templates(const std::string& folder) {
  const fs::path base(folder);
  ChatTemplateSources templates;
  // The value is a template, or a list of {"name", "template"}.
  const auto take = [&](const Json& value) {
    if (value.is_string()) templates.set("default", value.get<std::string>());
    if (!value.is_array()) return;
    templates.named.clear();
    for (const Json& entry : value)
      templates.set(json_text(entry, "name"), json_text(entry, "template"));
  };
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    const Json members = read_members(base / name, {"chat_template"});
    if (members.contains("chat_template")) take(members["chat_template"]);
  }
  const fs::path jinja = base / "chat_template.jinja";
  if (path_exists(jinja.string()))
    templates.set("default", std::string(MappedFile(jinja.string(), kTemplateFile).text()));
  constexpr std::string_view kEnding = ".jinja";
  const fs::path more = base / "additional_chat_templates";
  if (!is_folder(more.string())) return templates;
  for (const std::string& name : list_folder(more.string()))
    if (name.ends_with(kEnding) && name.size() > kEnding.size())
      templates.set(name.substr(0, name.size() - kEnding.size()),
                    std::string(MappedFile((more / name).string(), kTemplateFile).text()));
  return templates;
}

}  // namespace veery
