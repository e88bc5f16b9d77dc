// intern.h: names of kernels that are put together when a plan is made.
#pragma once
#include <string>
#include <string_view>

namespace veery {

/// The same text in lower case; lives as long as the program, as plans refer to it.
std::string_view intern(std::string name);

}  // namespace veery
