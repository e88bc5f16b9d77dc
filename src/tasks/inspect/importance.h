// importance.h: how much each input column of a model's matrices is used by a text.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "file/gguf/imatrix.h"
#include "graph/ops/experts.h"

namespace veery {

/// Collects the squares of what the products of a decoder or an encoder read, in f32, on the CPU.
/// Matrices of experts and of the heads of latent attention have sums of their own for each expert
/// or head. What the last matrices of experts read exists only within a kernel, so it is computed
/// here from what their first ones read, with the weights in f32. Not for the output head.
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
  /// Experts whose last matrix reads what these tensors make of an input.
  struct Experts {
    std::string gate, up, down, gate_bias, up_bias;  ///< biases may be empty
    MoeAttr attr;
  };
  /// A value that products read, and the weights that are multiplied with it.
  struct Input {
    Value value, gates;  ///< gates: of routed experts
    int64_t heads = 1;   ///< columns of a row are those of so many heads
    int64_t used = 0;    ///< of the columns of a head the first so many; 0: all
    std::vector<std::string> weights = {};
    std::vector<Experts> experts = {};
  };
  struct Pass;

  void find_inputs();
  Input& input_of(const Input& like);
  void find_experts(const Node& node);
  void add_rows(const Pass& pass, int32_t rows);
  void add_input(const Input& input, const Operand& x, const Operand* gates, int32_t rows);
  void add_experts(const Experts& experts, const Operand& x, const Operand& gates, int32_t rows);

  Model& model_;
  Entry entry_;
  std::vector<Input> inputs_;
  std::map<std::string, ImportanceSums> sums_;
  std::vector<std::unique_ptr<Pass>> passes_;  ///< of windows of `rows_` tokens
  int32_t rows_ = 0;
};

}  // namespace veery
