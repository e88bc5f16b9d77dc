// lexer.h: a template's source as tokens, white space control applied (trim_blocks, lstrip_blocks).
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
  std::string text;  ///< a string's value, otherwise as written
};

/// Throws kFormat with line and column.
std::vector<Token> tokenize(std::string_view source);

}  // namespace veery::jinja
