#include "text/grammar/language/number_language.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "text/grammar/language/pattern.h"

namespace veery::schema {
namespace {

constexpr int64_t kMostDigits = 400;
constexpr int64_t kMostRemainders = 20'000;
constexpr int64_t kExactDigits = 15;  // decimal digits that a double holds

enum Relation : int32_t { kLess, kEqual, kGreater };

struct Magnitude {
  std::string whole, decimals;
};
Magnitude magnitude(const std::string& plain) {
  const std::string digits = plain.substr(plain.starts_with('-') ? 1 : 0);
  const size_t point = std::min(digits.find('.'), digits.size());
  return {digits.substr(0, point), point < digits.size() ? digits.substr(point + 1) : ""};
}

// Builds the language of unsigned spellings whose relation to a magnitude is one of `wanted`. The
// integer parts compare only after all digits are read, since a number with fewer digits is smaller
// and one with more digits is larger.
class Comparison {
 public:
  Comparison(const Magnitude& bound, std::initializer_list<Relation> wanted)
      : bound_(bound), wanted_(wanted) {}

  Dfa language() {
    const auto whole = std::ssize(bound_.whole), decimals = std::ssize(bound_.decimals);
    const int32_t start = add(false);
    const int32_t less = add_decided(kLess), greater = add_decided(kGreater);
    // States after the decimal point while all digits so far are equal.
    std::vector<int32_t> after(static_cast<size_t>(decimals) + 1);
    for (int64_t j = 0; j <= decimals; ++j)
      after[static_cast<size_t>(j)] = add(wants(j < decimals ? kLess : kEqual));
    for (int64_t j = 0; j < decimals; ++j)
      compare_digit(after[static_cast<size_t>(j)], bound_.decimals[static_cast<size_t>(j)], less,
                    after[static_cast<size_t>(j) + 1], greater);
    add_digits(after.back(), '0', '9', greater);
    // States before the decimal point.
    const int32_t longer = add(wants(kGreater));
    add_digits(longer, '0', '9', longer);
    add_digits(longer, '.', '.', greater);
    std::vector<std::array<int32_t, 3>> at(static_cast<size_t>(whole));
    for (int64_t i = 0; i < whole; ++i)
      for (const Relation r : {kLess, kEqual, kGreater}) {
        const bool last = i + 1 == whole;
        const Relation now = !last ? kLess : r == kEqual && decimals > 0 ? kLess : r;
        at[static_cast<size_t>(i)][static_cast<size_t>(r)] = add(wants(now));
      }
    const auto& first = at[0];
    compare_digit(start, bound_.whole[0], first[kLess], first[kEqual], first[kGreater]);
    for (int64_t i = 0; i < whole; ++i) {
      const bool last = i + 1 == whole;
      const auto& here = at[static_cast<size_t>(i)];
      for (const Relation r : {kLess, kEqual, kGreater}) {
        const int32_t from = here[static_cast<size_t>(r)];
        add_digits(from, '.', '.', !last || r == kLess ? less : r == kEqual ? after[0] : greater);
        if (last) {
          add_digits(from, '0', '9', longer);
        } else {
          const auto& next = at[static_cast<size_t>(i) + 1];
          if (r == kEqual)
            compare_digit(from, bound_.whole[static_cast<size_t>(i) + 1], next[kLess], next[kEqual],
                          next[kGreater]);
          else
            add_digits(from, '0', '9', next[static_cast<size_t>(r)]);
        }
      }
    }
    return Dfa::minimal(std::move(states_));
  }

 private:
  bool wants(Relation r) const { return std::ranges::find(wanted_, r) != wanted_.end(); }
  int32_t add(bool accepts) {
    states_.push_back({.edges = {}, .accepts = accepts});
    return static_cast<int32_t>(states_.size()) - 1;
  }
  int32_t add_decided(Relation r) {
    const int32_t state = add(wants(r));
    add_digits(state, '0', '9', state);
    return state;
  }
  void add_digits(int32_t from, char low, char high, int32_t to) {
    if (low <= high)
      states_[static_cast<size_t>(from)].edges.push_back(
          {static_cast<char32_t>(low), static_cast<char32_t>(high), to});
  }
  void compare_digit(int32_t from, char digit, int32_t less, int32_t equal, int32_t greater) {
    add_digits(from, '0', static_cast<char>(digit - 1), less);
    add_digits(from, digit, digit, equal);
    add_digits(from, static_cast<char>(digit + 1), '9', greater);
  }

  const Magnitude& bound_;
  std::vector<Relation> wanted_;
  std::vector<Dfa::State> states_;
};

Dfa with_minus(const Dfa& unsigned_numbers) {
  std::vector<Dfa::State> states{{.edges = {{'-', '-', 1}}, .accepts = false}};
  for (Dfa::State state : unsigned_numbers.states()) {
    for (Dfa::Edge& edge : state.edges) ++edge.target;
    states.push_back(std::move(state));
  }
  return Dfa::minimal(std::move(states));
}

}  // namespace

std::string plain_number(const Json& number) {
  std::string text =
      number.is_number_float() ? fmt::format("{}", number.number()) : dump_json(number);
  const bool negative = text.starts_with('-');
  if (negative) text.erase(0, 1);
  int64_t exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoll(text.substr(e + 1));
    text.resize(e);
  }
  const size_t point = text.find('.');
  const int64_t whole =
      (point == std::string::npos ? std::ssize(text) : static_cast<int64_t>(point)) + exponent;
  std::erase(text, '.');
  if (std::abs(whole) > kMostDigits)
    throw Error(ErrorKind::kUnsupported, "a number of more than {} digits is not supported",
                kMostDigits);
  if (whole <= 0) text.insert(0, static_cast<size_t>(1 - whole), '0');
  const auto at = static_cast<size_t>(std::max<int64_t>(whole, 1));
  if (text.size() < at) text.append(at - text.size(), '0');
  std::string decimals = text.substr(at);
  text.resize(at);
  text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
  decimals.resize(decimals.find_last_not_of('0') + 1);
  if (!decimals.empty()) text += '.' + decimals;
  return negative && text != "0" ? "-" + text : text;
}

const Dfa& all_numbers() {
  static const Dfa dfa = pattern_language("^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\\.[0-9]*[1-9])$");
  return dfa;
}
const Dfa& all_integers() {
  static const Dfa dfa = pattern_language("^(0|-?[1-9][0-9]*)$");
  return dfa;
}

Dfa numbers_from(const std::string& bound, bool exclusive) {
  static const Dfa kUnsigned = pattern_language("^[0-9]");
  const Magnitude size = magnitude(bound);
  if (!bound.starts_with('-')) {
    Dfa above = exclusive ? Comparison(size, {kGreater}).language()
                          : Comparison(size, {kEqual, kGreater}).language();
    return intersect(all_numbers(), above);
  }
  const Dfa below = exclusive ? Comparison(size, {kLess}).language()
                              : Comparison(size, {kLess, kEqual}).language();
  return intersect(all_numbers(), unite(kUnsigned, with_minus(below)));
}

Dfa numbers_to(const std::string& bound, bool exclusive) {
  return subtract(all_numbers(), numbers_from(bound, !exclusive));
}

Dfa multiples_of(const std::string& divisor) {
  const Magnitude size = magnitude(divisor);
  const auto decimals = std::ssize(size.decimals);
  const std::string digits = size.whole + size.decimals;
  int64_t value = 0;
  for (const char digit : digits) {
    value = value * 10 + (digit - '0');
    if (value * (decimals + 1) > kMostRemainders)
      throw Error(ErrorKind::kLimit, "multiples of {} need more than {} states", divisor,
                  kMostRemainders);
  }
  if (value == 0 || divisor.starts_with('-'))
    throw Error(ErrorKind::kInput, "is {}, expected a number above 0", divisor);
  // value / 10^decimals is a binary fraction if and only if 5^decimals divides value.
  int64_t fives = 1;
  for (int64_t i = 0; i < decimals; ++i) fives *= 5;
  if (value % fives != 0)
    throw Error(ErrorKind::kUnsupported,
                "multiples of {} are not supported: binary floating point cannot represent them "
                "exactly",
                divisor);
  // State (number of decimals read, remainder of all digits read).
  std::vector<Dfa::State> states(static_cast<size_t>(value * (decimals + 1)) + 1);
  const auto id = [&](int64_t read, int64_t rest) {
    return static_cast<int32_t>(1 + read * value + rest);
  };
  const auto add = [&](Dfa::State& state, int64_t read, int64_t rest) {
    for (int64_t digit = 0; digit < 10; ++digit) {
      const auto code = static_cast<char32_t>('0' + digit);
      state.edges.push_back({code, code, id(read, (rest * 10 + digit) % value)});
    }
  };
  states[0].edges.push_back({'-', '-', 0});
  add(states[0], 0, 0);
  for (int64_t read = 0; read <= decimals; ++read)
    for (int64_t rest = 0; rest < value; ++rest) {
      Dfa::State& state = states[static_cast<size_t>(id(read, rest))];
      int64_t whole = rest;
      for (int64_t i = read; i < decimals; ++i) whole = whole * 10 % value;
      state.accepts = whole == 0;
      if (read == 0) {
        add(state, 0, rest);
        // The edge for the decimal point; its target is set below.
        if (decimals > 0) state.edges.push_back({'.', '.', 0});
      } else if (read < decimals) {
        add(state, read + 1, rest);
      }
    }
  // For each remainder, a state after the decimal point that reads the first decimal.
  if (decimals > 0)
    for (int64_t rest = 0; rest < value; ++rest) {
      Dfa::State after;
      add(after, 1, rest);
      for (Dfa::Edge& edge : states[static_cast<size_t>(id(0, rest))].edges)
        if (edge.low == '.') edge.target = static_cast<int32_t>(states.size());
      states.push_back(std::move(after));
    }
  return intersect(all_numbers(), Dfa::minimal(std::move(states)));
}

void NumberDigits::widen(const std::string& bound) {
  const Magnitude size = magnitude(bound);
  whole = std::max(whole, std::ssize(size.whole));
  decimals = std::max(decimals, std::ssize(size.decimals));
}

Dfa spellings(const Dfa& plain, const NumberDigits& digits) {
  const Dfa fractions = subtract(plain, all_integers());
  if (fractions.empty()) return plain;
  Nfa nfa;
  const int32_t start = nfa.add_state(), end = nfa.add_state();
  const int32_t point = nfa.add_state(), zeros = nfa.add_state(), dot = nfa.add_state();
  const CodeSet zero{{'0', '0'}};
  nfa.add_edge(zeros, zero, zeros);
  nfa.add_empty(zeros, end);
  nfa.add_edge(dot, {{'.', '.'}}, point);
  nfa.add_edge(point, zero, zeros);
  nfa.add_empty(start, nfa.add_dfa(fractions, zeros));
  const Dfa integers = intersect(plain, all_integers());
  nfa.add_empty(dot, end);
  nfa.add_empty(start, nfa.add_dfa(integers, dot));
  int64_t most = std::max(kExactDigits - digits.whole, digits.decimals);
  // Allows one more decimal than the bounds have, if a double still distinguishes the numbers.
  if (digits.whole <= 1 && most < digits.decimals + 2) most = digits.decimals + 2;
  most = std::max<int64_t>(most, 1);
  const Dfa written = nfa.determinize(start, end, true);
  // A double with too many integer digits has no fraction. This matters if a fraction is required.
  constexpr int64_t kHalf = kExactDigits / 2;
  const std::string exact =
      integers.empty() && digits.whole <= kHalf
          ? fmt::format("^-?([0-9]{{1,{}}}\\.[0-9]{{1,{}}}|[0-9]{{1,{}}}\\.[0-9]{{1,{}}})$",
                        digits.whole, most, kHalf, kHalf)
          : fmt::format("^-?[0-9]+(\\.[0-9]{{1,{}}})?$", most);
  return intersect(written, pattern_language(exact));
}

}  // namespace veery::schema
