// folder_config_fuzz.cc: any config.json must yield a configuration within bounds, or throw
// veery::Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "import/folder/folder_config.h"
#include "import/read_config.h"

namespace {

veery::ModelFile folder_with(veery::Json config) {
  veery::ModelFile file;
  file.path = "fuzz";
  file.container = veery::Container::kFolder;
  file.tensors.push_back({"token_embd.weight", veery::DType::kF32, {61, 36}, {}});
  file.tensors.push_back({"blk.0.attn_q.weight", veery::DType::kF32, {48, 36}, {}});
  file.tensors.push_back({"blk.0.attn_k.weight", veery::DType::kF32, {16, 36}, {}});
  file.config = std::make_shared<veery::Json>(std::move(config));
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    veery::Json json = veery::parse_json(text, "fuzz");
    if (!json.is_object()) return 0;
    const veery::ModelFile file = folder_with(std::move(json));
    const veery::TransformerConfig c = veery::read_config(file);
    if (c.attention.head_dim < 1 || c.attention.heads < 1 || c.attention.kv_heads < 1 ||
        c.attention.heads % c.attention.kv_heads != 0)
      std::abort();
    if (c.positions.rope.dims > c.attention.head_dim || c.positions.rope.dims % 2 != 0)
      std::abort();
    if (!c.attention.local.empty() && c.attention.local.size() != static_cast<size_t>(c.layers))
      std::abort();
    if (!c.positions.unrotated.empty() &&
        c.positions.unrotated.size() != static_cast<size_t>(c.layers))
      std::abort();
    const auto one_each = [&](const auto& list) {
      return list.empty() || list.size() == static_cast<size_t>(c.layers);
    };
    if (!one_each(c.positions.thetas) || !one_each(c.feed_forward.alone) ||
        !one_each(c.recurrent.layers))
      std::abort();
    for (int32_t layer = 0; layer < c.layers; ++layer) {
      if (c.head_dim_of(layer) < 1 || c.hidden_of(layer) < 1 || c.keys_of(layer) < 0) std::abort();
      if (c.kv_heads_of(layer) < 1 || c.attention.heads % c.kv_heads_of(layer) != 0) std::abort();
    }
    veery::folder_rope_factors(file);
  } catch (const veery::Error& error) {
    if (error.kind() == veery::ErrorKind::kBug) std::abort();
  }
  return 0;
}
