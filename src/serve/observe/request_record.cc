#include "serve/observe/request_record.h"

#include <algorithm>
#include <random>

namespace veery::serve {

std::string request_id(std::string_view given) {
  constexpr size_t kLongest = 200;
  const auto fits = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
  const bool sane = !given.empty() && given.size() <= kLongest && std::ranges::all_of(given, fits);
  return sane ? std::string(given) : random_id("req_");
}

std::string random_id(const std::string& prefix) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace veery::serve
