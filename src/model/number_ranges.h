// number_ranges.h: what the numbers of a configuration may be, by the keys that files have for
// them.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "file/model_file.h"

namespace veery {

/// From `low` to `high`; `or_zero`: also 0, which means that there is none.
struct NumberRange {
  double low, high;
  bool or_zero = false;

  /// False for NaN and infinities.
  bool holds(double value) const {
    return (value >= low && value <= high) || (or_zero && value == 0);
  }
  std::string text() const;  ///< "0, or 0.01 to 1000000"
};

/// The range of a key of config.json ("rms_norm_eps") or of GGUF without the architecture
/// ("rope.freq_base"). A key that has no row of its own may be any finite number if it is a number,
/// 1 to kMaxSize if it is a size.
NumberRange range_of_number(std::string_view key);
NumberRange range_of_size(std::string_view key);

/// Throws kFormat, naming `where`, `name`, the value and what is expected, if `value` is outside
/// the range of `key`.
void check_number(std::string_view where, std::string_view name, std::string_view key,
                  double value);

/// The number under `key` ("llama.rope.freq_base") if it is there. Throws kFormat if it is none or
/// outside its range.
std::optional<double> checked_number(const Metadata& metadata, const std::string& key);

/// A number as it was written: one that came out of a float of 32 bits has the digits of that.
std::string number_digits(double value);

}  // namespace veery
