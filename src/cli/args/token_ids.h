// token_ids.h: token ids on the command line, and bytes of a text that have no token.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace veery {
class Model;
struct LostBytes;
}  // namespace veery

namespace veery::cli {

/// Returns the ids of a list such as "1,2,3". Throws Misuse naming `flag`.
std::vector<int32_t> parse_ids(const std::string& text, const std::string& flag);

/// Throws Misuse naming `flag` if an id is outside of the model's vocabulary.
void check_ids(const std::vector<int32_t>& ids, const Model& model, const std::string& flag);

/// Returns `count` pseudo-random ids, the same in each call, for measurements: repeating one id
/// would route all rows to the same experts and cache lines.
std::vector<int32_t> any_tokens(const Model& model, size_t count);

/// Warns on standard error if bytes of `what` became no tokens.
void warn_lost(const LostBytes& lost, std::string_view what);
/// {"bytes": count, "first": offset}.
Json lost_json(const LostBytes& lost);

}  // namespace veery::cli
