#include "model/folder_text.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

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
  std::error_code code;
  for (fs::directory_iterator entry(from, code); !code && entry != fs::directory_iterator();
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (!is_copied(name)) continue;
    const MappedFile file(entry->path().string());
    folder.write(name, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  }
  if (code) throw Error(ErrorKind::kIo, "{}: cannot be listed: {}", from, code.message());
}

}  // namespace

void write_text_files(const ModelFile& file, const PendingFolder& folder) {
  if (file.container == Container::kFolder) copy_files(file.path, folder);
}

}  // namespace veery
