// languages.h: the languages that Whisper's vocabularies have tokens for.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace veery {

struct Language {
  std::string_view code;  ///< "en", as in <|en|>
  std::string_view name;  ///< "english"
};
/// In the order of the vocabularies.
std::span<const Language> languages();

/// The code of a name in English, whatever its case; what is no such name in lower case.
std::string language_code(std::string name);

/// "english" of "en"; what is no such code itself.
std::string language_name(std::string_view code);

}  // namespace veery
