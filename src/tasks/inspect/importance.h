// importance.h: importance of the input columns of a model's matrices for a text.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "file/gguf/imatrix.h"
#include "graph/ops/experts.h"

namespace veery {

/// Sums the squared inputs of the matrix products of a decoder or encoder, in f32, on the CPU.
/// Matrices of experts and of the heads of latent attention have sums per expert or head. The input
/// of the down projections of experts exists only inside of a kernel, so it is computed again here,
/// with weights in f32. The output head has no sums.
class ImportanceCollector {
 public:
  /// Throws kUnsupported for a model on a device and for a model that attends to an encoder.
  explicit ImportanceCollector(Model& model);
  ImportanceCollector(const ImportanceCollector&) = delete;
  ImportanceCollector& operator=(const ImportanceCollector&) = delete;
  ~ImportanceCollector();

  /// Runs one window of a text with an empty context. Throws kInput for ids outside of the
  /// vocabulary, kLimit for a window longer than the context.
  void read(std::span<const int32_t> ids);
  /// Returns the sums by the names of the model's tensors.
  const std::map<std::string, ImportanceSums>& sums() const { return sums_; }

 private:
  /// Tensors of experts that compute the input of their down projections.
  struct Experts {
    std::string gate, up, down, gate_bias, up_bias;  ///< gate and biases may be empty
    MoeAttr attr;
  };
  /// An input of products, and the weights that are multiplied with it.
  struct Input {
    Value value, gates;  ///< gates: of routed experts
    int64_t heads = 1;   ///< number of heads that share the columns of a row
    int64_t used = 0;    ///< number of columns of a head that are read, from the first; 0: all
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
