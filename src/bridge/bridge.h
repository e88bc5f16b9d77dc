// bridge.h: the Python program that runs mlx-lm (bridge.py), embedded as text.
#pragma once
#include <string_view>

namespace veery {

extern const std::string_view kBridge;

}  // namespace veery
