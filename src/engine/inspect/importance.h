// importance.h: how much each input column of a model's matrices is used by a text.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "file/gguf/imatrix.h"

namespace veery {

/// Collects the squares of what the products of a decoder or an encoder read, in f32, on the CPU.
/// Not for the output head, nor for the last matrix of routed experts, whose inputs exist only
/// within a kernel.
class ImportanceCollector {
 public:
  /// Throws kUnsupported for a model on a device, and for one that attends to an encoder.
  explicit ImportanceCollector(Model& model);
  ImportanceCollector(const ImportanceCollector&) = delete;
  ImportanceCollector& operator=(const ImportanceCollector&) = delete;
  ~ImportanceCollector();

  /// Runs one window of a text, from an empty context. Throws kInput for ids outside of the
  /// vocabulary, kLimit for a window longer than the context.
  void read(std::span<const int32_t> ids);
  /// By the names of the model's tensors.
  const std::map<std::string, ImportanceSums>& sums() const { return sums_; }

 private:
  /// A value that products read, and the weights that are multiplied with it.
  struct Input {
    Value value, gates;  ///< gates: of routed experts
    std::vector<std::string> weights;
  };
  struct Pass;

  void find_inputs();
  void add_rows(const Pass& pass, int32_t rows);

  Model& model_;
  Entry entry_;
  std::vector<Input> inputs_;
  std::map<std::string, ImportanceSums> sums_;
  std::vector<std::unique_ptr<Pass>> passes_;  ///< of windows of `rows_` tokens
  int32_t rows_ = 0;
};

}  // namespace veery
