// byte_alphabet.h: the printable alphabet in which byte-level vocabularies write their bytes.
#pragma once
#include <string>
#include <string_view>

namespace veery {

/// Byte-level BPE (GPT-2) writes bytes that are printable in Latin-1 as themselves and the n-th
/// other byte as code point 256 + n. Appends what `written` stands for to `out`; false (with `out`
/// as it was) if a character is not of this alphabet.
bool append_from_alphabet(std::string& out, std::string_view written);

/// The inverse.
std::string to_alphabet(std::string_view bytes);

}  // namespace veery
