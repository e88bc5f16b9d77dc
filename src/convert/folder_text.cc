#include "convert/folder_text.h"

#include <algorithm>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/untrusted_file.h"
#include "import/sampling_keys.h"
#include "text/format/tokenizer_json_write.h"

namespace veery {
namespace {

constexpr std::string_view kCopied[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "vocab.txt",
                                        "tokenizer.model",
                                        "spiece.model",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "generation_config.json"};

bool is_copied(const std::string& name) {
  return std::ranges::find(kCopied, name) != std::end(kCopied) || name.ends_with(".tiktoken");
}

void copy_files(const std::string& from, const PendingFolder& folder) {
  for (const std::string& name : list_folder(from))
    if (is_copied(name)) folder.write(name, MappedFile(from + "/" + name, kTokenizerFile).text());
  const std::string templates = "additional_chat_templates";
  if (!is_folder(from + "/" + templates)) return;
  for (const std::string& name : list_folder(from + "/" + templates))
    if (name.ends_with(".jinja"))
      folder.write(templates + "/" + name,
                   MappedFile(from + "/" + templates + "/" + name, kTemplateFile).text());
}

// Returns all ids that end an answer, EOS first, because programs that expect a single id use the
// first.
Json end_ids(const Tokenizer::Special& special) {
  Json ids = Json::array();
  if (special.eos >= 0) ids.push_back(special.eos);
  for (const int32_t id : special.ends)
    if (id != special.eos) ids.push_back(id);
  return ids.size() == 1 ? ids[0] : ids;
}

Json generation_config(const Metadata& metadata, const Tokenizer::Special& special) {
  Json config = Json::object();
  if (special.bos >= 0) config["bos_token_id"] = special.bos;
  if (const Json ends = end_ids(special); !ends.empty()) config["eos_token_id"] = ends;
  if (special.pad >= 0) config["pad_token_id"] = special.pad;
  for (const auto& [theirs, ours] : kSamplingKeys)
    if (const auto value = metadata.number(std::string(ours))) config[theirs] = *value;
  if (const auto top_k = metadata.integer("general.sampling.top_k")) config["top_k"] = *top_k;
  if (config.contains("temperature")) config["do_sample"] = config["temperature"] != 0.0;
  return config;
}

}  // namespace

bool has_tokenizer(const ModelFile& file) {
  const std::string model = file.metadata.text("tokenizer.ggml.model").value_or("none");
  return model != "none" && model != "no_vocab";
}

void write_text_files(const ModelFile& file, const PendingFolder& folder) {
  if (file.container == Container::kFolder) return copy_files(file.path, folder);
  if (!has_tokenizer(file)) return;
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(file);
  folder.write("tokenizer.json", tokenizer_json(file, *tokenizer));
  folder.write("tokenizer_config.json", dump_json(tokenizer_config(file, *tokenizer), 2) + "\n");
  folder.write("generation_config.json",
               dump_json(generation_config(file.metadata, tokenizer->special()), 2) + "\n");
}

}  // namespace veery
