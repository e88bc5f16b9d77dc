// token_decoder.h: the `decoder` of a tokenizer.json: converts written tokens to text.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/common/growth.h"

namespace veery {

class TokenDecoder {
 public:
  TokenDecoder() = default;  ///< no decoder: tokens are joined by spaces
  /// Reads the `decoder` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming an unknown type, and kLimit for more than kMostSteps steps.
  explicit TokenDecoder(const Json& json);

  /// Throws kLimit if a step lengthens the tokens too much (see growth.h).
  std::string decode(std::vector<std::string> tokens) const;

  /// Returns the bytes of one token inside a text or, if `first`, at its beginning. The
  /// concatenated pieces equal decode(), except for malformed bytes and steps that depend on
  /// neighbouring tokens.
  std::string piece(std::string token, bool first) const;

  /// Whether the byte alphabet is the only step.
  bool is_byte_level() const { return byte_level_only_; }
  /// Whether a space at the beginning of the text is removed.
  bool drops_space() const { return drops_space_; }

 private:
  using Tokens = std::vector<std::string>;
  struct Step {
    std::function<void(Tokens&, const Growth&)> all;
    /// Step for a single token (token, whether it is the first of the text); null if the step
    /// changes no bytes of single tokens.
    std::function<void(std::string&, bool, const Growth&)> one;
  };
  void read(const Json& json);
  void read_strip(const Json& json);
  void add(Step step);
  void add_each(std::function<void(std::string&, bool)> one);
  void add_replacement(const Json& json);
  void add_word_pieces(const Json& json);
  void add_word_ends(const Json& json);
  void add_alignment(const Json& json);

  std::vector<Step> steps_;
  bool byte_level_only_ = false, drops_space_ = false, fused_ = false;
};

/// Returns the byte of a token of the form "<0x0A>", or -1.
int byte_of_token(std::string_view token);

}  // namespace veery
