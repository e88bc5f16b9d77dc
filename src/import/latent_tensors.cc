#include "import/latent_tensors.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "file/folder/row_sources.h"
#include "import/read_config.h"
#include "model/config.h"

namespace veery {

void split_latent(ModelFile& file) {
  constexpr std::string_view kJoint = "attn_kv_b.weight";
  const auto is_joint = [&](const TensorView& tensor) { return tensor.name.ends_with(kJoint); };
  if (std::ranges::none_of(file.tensors, is_joint)) return;
  const TransformerConfig c = read_config(file);
  const LatentConfig& l = c.latent;
  const int64_t each = l.plain + l.value;
  std::vector<TensorView> tensors;
  for (TensorView& tensor : file.tensors) {
    if (!is_joint(tensor)) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    if (tensor.shape.size() != 2 || tensor.shape[0] != c.attention.heads * each ||
        tensor.shape[1] != l.rank)
      throw Error(ErrorKind::kFormat, "{}: tensor '{}' does not fit {} heads of {} + {} from {}",
                  file.path, printable(tensor.name), c.attention.heads, l.plain, l.value, l.rank);
    const std::string layer = tensor.name.substr(0, tensor.name.size() - kJoint.size());
    tensors.push_back(transposed(pick_rows(tensor, layer + "attn_k_b.weight",
                                           {c.attention.heads, l.plain, l.rank}, {each, 0, 1})));
    tensors.push_back(pick_rows(tensor, layer + "attn_v_b.weight",
                                {c.attention.heads, l.value, l.rank}, {each, l.plain, 1}));
  }
  file.tensors = std::move(tensors);
}

}  // namespace veery
