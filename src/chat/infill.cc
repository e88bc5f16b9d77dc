#include "chat/infill.h"

#include "base/error.h"

namespace veery {
namespace {

struct Names {
  std::string_view prefix, suffix, middle;
  bool suffix_first = false;
};

// Qwen Coder and CodeGemma, StarCoder, Granite, DeepSeek Coder, Code Llama (as GGUF and folders
// write it), Codestral, GLM.
constexpr Names kNames[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},
    {"<PRE>", "<SUF>", "<MID>"},
    {"[PREFIX]", "[SUFFIX]", "", true},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
};
constexpr std::string_view kFileNames[] = {"<|file_sep|>", "<file_sep>"};

int32_t id_of(const Model& model, std::string_view name) {
  return name.empty() ? -1 : model.tokenizer().find(name).value_or(-1);
}

// Returns the id of a key or of its older name; -1 if neither is present.
int32_t id_by_key(const Model& model, std::string_view key, std::string_view old) {
  for (const std::string_view name : {key, old}) {
    const auto id = model.file().metadata.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
    if (id && *id >= 0 && *id < model.tokenizer().size()) return static_cast<int32_t>(*id);
  }
  return -1;
}

}  // namespace

std::optional<InfillTokens> find_infill_tokens(const Model& model) {
  InfillTokens tokens{.prefix = id_by_key(model, "fim_pre", "prefix"),
                      .suffix = id_by_key(model, "fim_suf", "suffix"),
                      .middle = id_by_key(model, "fim_mid", "middle"),
                      .file = id_by_key(model, "fim_sep", "fim_sep")};
  for (const std::string_view name : kFileNames)
    if (tokens.file < 0) tokens.file = id_of(model, name);
  if (tokens.prefix >= 0 && tokens.suffix >= 0 && tokens.middle >= 0) return tokens;
  for (const Names& names : kNames) {
    tokens.prefix = id_of(model, names.prefix);
    tokens.suffix = id_of(model, names.suffix);
    tokens.middle = id_of(model, names.middle);
    tokens.suffix_first = names.suffix_first;
    if (tokens.prefix >= 0 && tokens.suffix >= 0 && (tokens.middle >= 0 || names.middle.empty()))
      return tokens;
  }
  return std::nullopt;
}

std::vector<int32_t> infill_prompt(const Model& model, std::string_view prefix,
                                   std::string_view suffix, std::span<const InfillFile> files,
                                   std::string_view begun) {
  const std::optional<InfillTokens> tokens = find_infill_tokens(model);
  if (!tokens)
    throw Error(ErrorKind::kUnsupported,
                "a suffix needs fill-in-the-middle tokens such as {}, but the vocabulary has none",
                kNames[0].prefix);
  const Tokenizer::Special& special = model.tokenizer().special();
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view text) {
    if (text.empty()) return;
    const std::vector<int32_t> more =
        model.tokenizer().encode(text, {.add_special = false, .parse_special = false});
    ids.insert(ids.end(), more.begin(), more.end());
  };
  if (special.add_bos && special.bos >= 0) ids.push_back(special.bos);
  for (const InfillFile& file : files) {
    if (tokens->file >= 0) ids.push_back(tokens->file);
    add(file.name + "\n" + file.text + "\n");
  }
  const auto part = [&](int32_t id, std::string_view text) {
    ids.push_back(id);
    add(text);
  };
  if (tokens->suffix_first) part(tokens->suffix, suffix);
  part(tokens->prefix, prefix);
  if (!tokens->suffix_first) part(tokens->suffix, suffix);
  if (tokens->middle >= 0) ids.push_back(tokens->middle);
  add(begun);
  return ids;
}

}  // namespace veery
