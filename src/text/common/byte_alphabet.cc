#include "text/common/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace veery {
namespace {

constexpr int kCharacters = 256 + 68;  // 68 bytes are not printable in Latin-1

struct Alphabet {
  std::array<uint16_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const int character = printable ? byte : next++;
    alphabet.character[static_cast<size_t>(byte)] = static_cast<uint16_t>(character);
    alphabet.byte[static_cast<size_t>(character)] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

bool append_from_alphabet(std::string& out, std::string_view written) {
  const size_t before = out.size();
  for (size_t i = 0; i < written.size();) {
    const auto lead = static_cast<unsigned char>(written[i]);
    int character = lead;
    size_t length = 1;
    if (lead >= 0x80) {  // characters of the alphabet above ASCII have two bytes
      const bool pair = (lead & 0xE0) == 0xC0 && i + 1 < written.size() &&
                        (static_cast<unsigned char>(written[i + 1]) & 0xC0) == 0x80;
      character =
          pair ? (lead & 0x1F) << 6 | (static_cast<unsigned char>(written[i + 1]) & 0x3F) : -1;
      length = 2;
    }
    const int byte = character >= 0 && character < kCharacters
                         ? kAlphabet.byte[static_cast<size_t>(character)]
                         : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    i += length;
  }
  return true;
}

std::string to_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(out, kAlphabet.character[static_cast<unsigned char>(c)]);
  return out;
}

}  // namespace veery
