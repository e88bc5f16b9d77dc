#include "import/names/whisper_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace veery {
namespace {

struct Row {
  std::string_view theirs, ours;
};
// Cross-attention keys and values are computed from the encoder's output by weights of the
// decoder's layers.
constexpr Row kLayer[] = {{"self_attn_layer_norm", "attn_norm"},
                          {"self_attn.q_proj", "attn_q"},
                          {"self_attn.k_proj", "attn_k"},
                          {"self_attn.v_proj", "attn_v"},
                          {"self_attn.out_proj", "attn_output"},
                          {"encoder_attn_layer_norm", "cross_attn_norm"},
                          {"encoder_attn.q_proj", "cross_attn_q"},
                          {"encoder_attn.k_proj", "cross_attn_k"},
                          {"encoder_attn.v_proj", "cross_attn_v"},
                          {"encoder_attn.out_proj", "cross_attn_output"},
                          {"final_layer_norm", "ffn_norm"},
                          {"fc1", "ffn_up"},
                          {"fc2", "ffn_down"}};
constexpr Row kTop[] = {{"decoder.embed_tokens", "token_embd"},
                        {"decoder.embed_positions", "position_embd"},
                        {"decoder.layer_norm", "output_norm"},
                        {"proj_out", "output"},
                        {"encoder.conv1", "enc.conv1"},
                        {"encoder.conv2", "enc.conv2"},
                        {"encoder.embed_positions", "enc.position_embd"},
                        {"encoder.layer_norm", "enc.output_norm"}};
constexpr Row kLists[] = {{"decoder.layers.", "blk."}, {"encoder.layers.", "enc.blk."}};

std::string look_up(std::span<const Row> table, std::string_view name) {
  const auto row = std::ranges::find(table, name, &Row::theirs);
  return row == table.end() ? std::string() : std::string(row->ours);
}

}  // namespace

std::string whisper_name(std::string_view name) {
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  const size_t end = name.rfind('.');
  if (end == std::string_view::npos) return {};
  const std::string_view kind = name.substr(end);
  if (kind != ".weight" && kind != ".bias") return {};
  name = name.substr(0, end);
  for (const Row& list : kLists) {
    if (!name.starts_with(list.theirs)) continue;
    const std::string_view rest = name.substr(list.theirs.size());
    const size_t dot = rest.find('.');
    const bool number = dot != 0 && dot != std::string_view::npos && dot < 5 &&
                        rest.find_first_not_of("0123456789") == dot;
    const std::string part = number ? look_up(kLayer, rest.substr(dot + 1)) : std::string();
    return part.empty() ? part
                        : fmt::format("{}{}.{}{}", list.ours, rest.substr(0, dot), part, kind);
  }
  const std::string top = look_up(kTop, name);
  return top.empty() ? top : fmt::format("{}{}", top, kind);
}

}  // namespace veery
