// bridge.h: the Python program by which mlx-lm answers (bridge.py).
#pragma once
#include <string_view>

namespace veery {

extern const std::string_view kBridge;

}  // namespace veery
