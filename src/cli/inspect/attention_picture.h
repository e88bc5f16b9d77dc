// attention_picture.h: draws the attention maps of a layer as SVG, one panel per head.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace veery::cli {

struct AttentionPicture {
  std::string title;                    ///< UTF-8, on one line
  std::span<const std::string> tokens;  ///< UTF-8, one per position: labels of both axes
  std::span<const int32_t> heads;
  std::span<const float> maps;  ///< [heads][query positions][key positions]
};

/// Returns an SVG with queries downwards and keys to the right. The darkness of a cell is the
/// square root of its probability, so that small ones are visible. For more than 256 tokens a cell
/// shows the maximum of several positions.
std::string draw_attention(const AttentionPicture& picture);

}  // namespace veery::cli
