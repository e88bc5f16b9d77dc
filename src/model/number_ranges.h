// number_ranges.h: valid ranges of hyperparameters, by the keys in files.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "file/model_file.h"

namespace veery {

/// The range `low` to `high`; `or_zero`: also 0, which means "none".
struct NumberRange {
  double low, high;
  bool or_zero = false;

  /// Returns false for NaN and infinities.
  bool holds(double value) const {
    return (value >= low && value <= high) || (or_zero && value == 0);
  }
  std::string text() const;  ///< "0, or 0.01 to 1000000"
};

/// Returns the range of a key of config.json ("rms_norm_eps") or of GGUF without the architecture
/// ("rope.freq_base"). Defaults for other keys: any finite number, or 1 to kMaxSize for a size.
NumberRange range_of_number(std::string_view key);
NumberRange range_of_size(std::string_view key);

/// Throws kFormat, naming `where`, `name`, the value and the expected range, if `value` is outside
/// the range of `key`.
void check_number(std::string_view where, std::string_view name, std::string_view key,
                  double value);

/// Returns the number under `key` ("llama.rope.freq_base"), if present. Throws kFormat if it is not
/// a number or out of range.
std::optional<double> checked_number(const Metadata& metadata, const std::string& key);

/// Returns a number as it was written: a value that a 32-bit float represents has the digits of
/// that float.
std::string number_digits(double value);

}  // namespace veery
