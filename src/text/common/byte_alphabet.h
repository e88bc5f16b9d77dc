// byte_alphabet.h: the printable alphabet in which byte-level vocabularies write bytes.
#pragma once
#include <string>
#include <string_view>

namespace veery {

/// Decodes a token of byte-level BPE (GPT-2) and appends its bytes to `out`. The alphabet writes
/// bytes that are printable in Latin-1 as themselves and the n-th other byte as code point 256 + n.
/// Returns false and leaves `out` unchanged if a character is not in the alphabet.
bool append_from_alphabet(std::string& out, std::string_view written);

/// The inverse of append_from_alphabet().
std::string to_alphabet(std::string_view bytes);

}  // namespace veery
