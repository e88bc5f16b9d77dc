// languages.h: the languages of Whisper's vocabularies.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace veery {

struct Language {
  std::string_view code;  ///< "en", as in <|en|>
  std::string_view name;  ///< "english"
};
/// Returns the languages in the order of the vocabularies.
std::span<const Language> languages();

/// Returns the code of an English language name (case-insensitive), or the name in lower case if it
/// is unknown.
std::string language_code(std::string name);

/// Returns "english" for "en", or `code` if it is unknown.
std::string language_name(std::string_view code);

}  // namespace veery
