// attention_picture.h: the attention maps of a layer as one SVG, a panel a head.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace veery::cli {

struct AttentionPicture {
  std::string title;                    ///< UTF-8, on one line
  std::span<const std::string> tokens;  ///< UTF-8, one a position: labels of both axes
  std::span<const int32_t> heads;
  std::span<const float> maps;  ///< [heads][positions of queries][positions of keys]
};

/// Queries run down, keys to the right. A cell is the darker the larger the root of its probability
/// is, so that little ones can be seen. Of texts of more than 256 tokens a cell is the largest of
/// several.
std::string draw_attention(const AttentionPicture& picture);

}  // namespace veery::cli
