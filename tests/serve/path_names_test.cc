// Messages to clients have the ids of models instead of paths.
#include "serve/models/path_names.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace veery::serve {
namespace {

TEST(Paths, AreNotTold) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "veery_paths";
  fs::remove_all(folder);
  fs::create_directories(folder / "real");
  fs::create_symlink(folder / "real", folder / "link");
  PathNames names;
  names.add((folder / "link" / "big.gguf").string(), "llama");
  names.add((folder / "hf").string() + "/", "bert");
  names.add("relative.gguf", "rel");
  const std::string at = folder.string();
  for (const auto& [given, expected] : {
           std::pair{at + "/link/big.gguf: is cut off", std::string("llama: is cut off")},
           {"the model 'llama' cannot be loaded: " + at + "/real/big.gguf: no",
            "the model 'llama' cannot be loaded: llama: no"},
           {at + "/link/big-00002-of-00002.gguf: gone", "big-00002-of-00002.gguf: gone"},
           {"'" + at + "/hf/config.json' and (" + at + "/hf)", "'bert/config.json' and (bert)"},
           {at + "/hf", "bert"},
           {"relative.gguf: no", "rel: no"},
           {"a relative.gguf is", "a relative.gguf is"},
           {(fs::current_path() / "relative.gguf").string() + ": no", "rel: no"},
           {at + "/other/file: no", "other/file: no"},
           {"there is no /v1/x", "there is no /v1/x"},
           {"", ""},
       })
    EXPECT_EQ(names.without_paths(given), expected);
  fs::remove_all(folder);
}

// The files need not exist.
TEST(Paths, OfTopFoldersStay) {
  PathNames names;
  names.add("/veery_top/big.gguf", "llama");
  names.add("/veery_top/hf/", "bert");
  names.add("/veery_big.gguf", "qwen");
  names.add("/veery_a/b/c/d.gguf", "deep");
  for (const auto& [given, expected] : {
           std::pair{"/veery_top/big.gguf: gone", "llama: gone"},
           {"/veery_top/hf/config.json: gone", "bert/config.json: gone"},
           {"/veery_big.gguf: gone", "qwen: gone"},
           {"there is no /veery_top/other", "there is no /veery_top/other"},
           {"/veery_a/b/c/e.gguf: gone", "e.gguf: gone"},
           {"/veery_a/b/e.gguf: gone", "e.gguf: gone"},
           {"/veery_a/e.gguf: gone", "/veery_a/e.gguf: gone"},
       })
    EXPECT_EQ(names.without_paths(given), expected);
}

}  // namespace
}  // namespace veery::serve
