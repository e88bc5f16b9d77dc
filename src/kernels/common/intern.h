// intern.h: storage of kernel names that are composed at run time.
#pragma once
#include <string>
#include <string_view>

namespace veery {

/// Returns `name` in lower case. The result is valid until the program ends, since plans keep views
/// of kernel names. Thread-safe.
std::string_view intern(std::string name);

}  // namespace veery
