// write_model.h: writes files of tensors that are in memory.
#pragma once
#include <map>
#include <span>
#include <string>

#include "base/error.h"
#include "file/folder/safetensors.h"
#include "file/gguf/gguf.h"

namespace veery::test {

inline void write_gguf(const std::string& path, const Metadata& metadata,
                       std::span<const TensorView> tensors) {
  GgufWriter file(path, metadata, tensors);
  for (const TensorView& tensor : tensors) {
    VEERY_CHECK(tensor.data.size() == tensor.bytes());
    file.write(tensor.data);
  }
  file.commit();
}

inline void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {}) {
  SafetensorsWriter file(path, tensors, metadata);
  for (size_t i = 0; i < tensors.size(); ++i) file.write(i, 0, tensors[i].data);
  file.commit();
}

}  // namespace veery::test
