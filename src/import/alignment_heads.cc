#include "import/alignment_heads.h"

#include <span>
#include <utility>

namespace veery {
namespace {

using Head = std::pair<int16_t, int16_t>;

constexpr Head kTiny[] = {{2, 2}, {3, 0}, {3, 2}, {3, 3}, {3, 4}, {3, 5}};
constexpr Head kTinyEnglish[] = {{1, 0}, {2, 0}, {2, 5}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}};
constexpr Head kBase[] = {{3, 1}, {4, 2}, {4, 3}, {4, 7}, {5, 1}, {5, 2}, {5, 4}, {5, 6}};
constexpr Head kBaseEnglish[] = {{3, 3}, {4, 7}, {5, 1}, {5, 5}, {5, 7}};
constexpr Head kSmall[] = {{5, 3}, {5, 9}, {8, 0}, {8, 4}, {8, 7},
                           {8, 8}, {9, 0}, {9, 7}, {9, 9}, {10, 5}};
constexpr Head kSmallEnglish[] = {{6, 6},  {7, 0},  {7, 3},   {7, 8},  {8, 2},  {8, 5},  {8, 7},
                                  {9, 0},  {9, 4},  {9, 8},   {9, 10}, {10, 0}, {10, 1}, {10, 2},
                                  {10, 3}, {10, 6}, {10, 11}, {11, 2}, {11, 4}};
constexpr Head kMedium[] = {{13, 15}, {15, 4}, {15, 15}, {16, 1}, {20, 0}, {23, 4}};
constexpr Head kMediumEnglish[] = {{11, 4},  {14, 1}, {14, 12}, {14, 14}, {15, 4},  {16, 0},
                                   {16, 4},  {16, 9}, {17, 12}, {17, 14}, {18, 7},  {18, 10},
                                   {18, 15}, {20, 0}, {20, 3},  {20, 9},  {20, 14}, {21, 12}};
constexpr Head kLarge3[] = {{7, 0},   {10, 17}, {12, 18}, {13, 12}, {16, 1},
                            {17, 14}, {19, 11}, {21, 4},  {24, 1},  {25, 6}};
constexpr Head kTurbo[] = {{2, 4}, {2, 11}, {3, 3}, {3, 6}, {3, 11}, {3, 14}};

struct Known {
  SpeechShape shape;
  std::span<const Head> heads;
};
constexpr Known kKnown[] = {{{4, 6, 80, true}, kTiny},      {{4, 6, 80, false}, kTinyEnglish},
                            {{6, 8, 80, true}, kBase},      {{6, 8, 80, false}, kBaseEnglish},
                            {{12, 12, 80, true}, kSmall},   {{12, 12, 80, false}, kSmallEnglish},
                            {{24, 16, 80, true}, kMedium},  {{24, 16, 80, false}, kMediumEnglish},
                            {{32, 20, 128, true}, kLarge3}, {{4, 20, 128, true}, kTurbo}};

}  // namespace

std::vector<int64_t> usual_alignment_heads(const SpeechShape& shape) {
  std::vector<int64_t> all;
  const auto add = [&](int64_t layer, int64_t head) {
    all.push_back(layer);
    all.push_back(head);
  };
  for (const Known& known : kKnown) {
    const SpeechShape& s = known.shape;
    if (s.layers != shape.layers || s.heads != shape.heads || s.bands != shape.bands ||
        s.multilingual != shape.multilingual)
      continue;
    for (const auto& [layer, head] : known.heads) add(layer, head);
    return all;
  }
  for (int64_t layer = shape.layers / 2; layer < shape.layers; ++layer)
    for (int64_t head = 0; head < shape.heads; ++head) add(layer, head);
  return all;
}

}  // namespace veery
