#include "model/registry.h"

#include <string>

#include "base/error.h"
#include "model/arch/arch.h"

namespace veery {

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> table{
      {"llama", complete_llama, llama},
      {"gemma3", complete_gemma3, gemma3},
  };
  return table;
}

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture& row : architectures()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorKind::kUnsupported, "architecture {} is not known; known are: {}", name, known);
}

}  // namespace veery
