// smoke_main.cc: runs a fuzz target without libFuzzer, on a corpus folder and seeded mutations of
// its files.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsPerFile = 400;

std::vector<uint8_t> read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Truncates, flips bits, overwrites with extreme integers, or repeats a part; these find most
// parser bugs.
std::vector<uint8_t> mutate(std::vector<uint8_t> data, std::mt19937& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  for (size_t i = 0, n = 1 + below(6); i < n && !data.empty(); ++i) {
    const size_t at = below(data.size());
    switch (random() % 5) {
      case 0: data.resize(at); break;
      case 1: data[at] ^= static_cast<uint8_t>(1U << (random() % 8)); break;
      case 2: data[at] = static_cast<uint8_t>(random()); break;
      case 3:
        for (size_t k = at; k < std::min(at + 8, data.size()); ++k)
          data[k] = random() % 2 ? 0xFF : 0;
        break;
      default: {
        const std::vector<uint8_t> part(data.begin() + static_cast<ptrdiff_t>(at), data.end());
        data.insert(data.begin() + static_cast<ptrdiff_t>(below(data.size())), part.begin(),
                    part.begin() + static_cast<ptrdiff_t>(std::min<size_t>(part.size(), 64)));
      }
    }
  }
  return data;
}

}  // namespace

// usage: x_fuzz FOLDER [-runs=N]    -runs as in libFuzzer: at least N inputs; default: 400 per
// file.
int main(int argc, char** argv) {
  constexpr std::string_view kRuns = "-runs=";
  size_t least = 1, runs = 0;
  std::vector<std::vector<uint8_t>> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(kRuns)) least = std::stoull(argument.substr(kRuns.size()));
    if (!std::filesystem::is_directory(argument)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argument))
      seeds.push_back(read(entry.path()));
  }
  std::mt19937 random(20240517);
  for (const auto& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  while (runs < least && !seeds.empty()) {
    for (const auto& seed : seeds)
      for (int k = 0; k < kMutationsPerFile; ++k, ++runs) {
        const std::vector<uint8_t> input = mutate(seed, random);
        LLVMFuzzerTestOneInput(input.data(), input.size());
      }
  }
  std::printf("%zu inputs\n", runs);
  return runs > 0 ? 0 : 1;  // an empty corpus would test nothing
}
