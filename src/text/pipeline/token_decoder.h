// token_decoder.h: from written tokens back to text: the `decoder` of a tokenizer.json.
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
  TokenDecoder() = default;  ///< none: tokens are joined by spaces
  /// From the `decoder` of a tokenizer.json (null: none). Throws kFormat naming the key,
  /// kUnsupported naming a type that is not known, kLimit if there are more than kMostSteps.
  explicit TokenDecoder(const Json& json);

  /// Throws kLimit if a step makes the tokens much longer; see growth.h.
  std::string decode(std::vector<std::string> tokens) const;

  /// The bytes of one token, in the middle of a text or, if `first`, at its beginning. Pieces
  /// joined are what decode() gives but for malformed bytes and the steps that look at neighbours.
  std::string piece(std::string token, bool first) const;

  /// The only step is the byte alphabet.
  bool is_byte_level() const { return byte_level_only_; }
  /// A space at the beginning of the text is taken away.
  bool drops_space() const { return drops_space_; }

 private:
  using Tokens = std::vector<std::string>;
  struct Step {
    std::function<void(Tokens&, const Growth&)> all;
    /// (token, it is the first of the text) -> its bytes; nothing: the step changes no bytes.
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

/// The byte that "<0x0A>" stands for, or -1.
int byte_of_token(std::string_view token);

}  // namespace veery
