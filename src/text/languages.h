// languages.h: the languages that Whisper's vocabularies have tokens for.
#pragma once
#include <span>
#include <string_view>

namespace veery {

struct Language {
  std::string_view code;  ///< "en", as in <|en|>
  std::string_view name;  ///< "english"
};
/// In the order of the vocabularies.
std::span<const Language> languages();

/// The code of a name in English and lower case; what is no such name itself.
std::string_view language_code(std::string_view name);

}  // namespace veery
