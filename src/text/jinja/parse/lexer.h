// lexer.h: splits template source into tokens; applies whitespace control (trim_blocks,
// lstrip_blocks).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace veery::jinja {

struct Token {
  enum class Kind : uint8_t {
    kData,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  int line;
  int column;
  std::string text;  ///< value of a string literal; other tokens verbatim
};

/// Throws kFormat with line and column.
std::vector<Token> tokenize(std::string_view source);

}  // namespace veery::jinja
