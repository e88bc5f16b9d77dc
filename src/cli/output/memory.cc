#include "cli/output/memory.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "engine/model.h"

namespace veery::cli {

Json device_memory(const Model& model) {
  const std::optional<DeviceMemory> memory = model.device_memory();
  if (!memory) return nullptr;
  return {{"active_bytes", memory->active},
          {"peak_bytes", memory->peak},
          {"cached_bytes", memory->cached}};
}

size_t peak_memory() {
  // Not getrusage(): its number is at least that of the process that started this one.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    return static_cast<size_t>(std::strtoull(line.c_str() + 6, nullptr, 10)) * 1024;
  }
  return 0;
}

}  // namespace veery::cli
