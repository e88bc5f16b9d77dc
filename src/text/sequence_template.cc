#include "text/sequence_template.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace veery {
namespace {

// Returns the lengths of two texts after truncation "longest first" as in Hugging Face's
// tokenizers: a short text is not truncated; of two long texts, the second gets the odd token.
std::pair<size_t, size_t> shared_room(size_t first, size_t second, size_t room) {
  const bool second_is_shorter = first > second;
  size_t shorter = std::min(first, second);
  size_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return second_is_shorter ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

}  // namespace

SequenceTemplate SequenceTemplate::around(const std::vector<int32_t>& before,
                                          const std::vector<int32_t>& after,
                                          const std::vector<int32_t>& between,
                                          int32_t second_type) {
  SequenceTemplate out{.single = {}, .pair = {}};
  const auto add = [](Parts& parts, const std::vector<int32_t>& ids, int32_t type) {
    for (const int32_t id : ids) parts.push_back({id, type});
  };
  for (Parts* parts : {&out.single, &out.pair}) {
    add(*parts, before, 0);
    parts->push_back({kFirst, 0});
    add(*parts, after, 0);
  }
  add(out.pair, between, 0);
  out.pair.push_back({kSecond, second_type});
  add(out.pair, after, second_type);
  return out;
}

size_t SequenceTemplate::special_tokens(const Parts& parts) {
  return static_cast<size_t>(std::ranges::count_if(parts, [](Part part) { return part.id >= 0; }));
}

Encoding fill_template(const SequenceTemplate::Parts& parts, const TokenIds& first,
                       const TokenIds& second, bool add_special) {
  Encoding out;
  const size_t most = parts.size() + first.size() + second.size();
  out.ids.reserve(most);
  out.types.reserve(most);
  for (const SequenceTemplate::Part& part : parts) {
    if (part.id >= 0) {
      if (add_special) out.ids.push_back(part.id);
    } else {
      const TokenIds& text = part.id == SequenceTemplate::kFirst ? first : second;
      out.ids.insert(out.ids.end(), text.begin(), text.end());
    }
    out.types.resize(out.ids.size(), part.type);
  }
  return out;
}

size_t Truncation::cut(TokenIds& text, size_t room) const {
  if (text.size() <= room) return 0;
  const size_t surplus = text.size() - room;
  if (keeps_end)
    text.erase(text.begin(), text.begin() + static_cast<ptrdiff_t>(surplus));
  else
    text.resize(room);
  return surplus;
}

size_t Truncation::apply(size_t special, TokenIds& text) const {
  return cut(text, longest - std::min(longest, special));
}

size_t Truncation::apply(size_t special, TokenIds& first, TokenIds& second) const {
  const size_t room = longest - std::min(longest, special);
  if (first.size() + second.size() <= room) return 0;
  if (strategy == TruncationStrategy::kLongestFirst || room == 0) {
    const auto [first_room, second_room] = shared_room(first.size(), second.size(), room);
    return cut(first, first_room) + cut(second, second_room);
  }
  const bool cuts_first = strategy == TruncationStrategy::kOnlyFirst;
  TokenIds& text = cuts_first ? first : second;
  const TokenIds& other = cuts_first ? second : first;
  if (other.size() >= room)
    throw Error(
        ErrorKind::kInput,
        "the {} text has {} tokens, which leaves no room for the {} text: the maximum is {} "
        "tokens, {} of them special",
        cuts_first ? "second" : "first", other.size(), cuts_first ? "first" : "second", longest,
        special);
  return cut(text, room - other.size());
}

}  // namespace veery
