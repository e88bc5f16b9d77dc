// params.h: the weights of a model, in the layout that kernels read.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "device/memory.h"
#include "file/model_file.h"
#include "graph/graph.h"
#include "kernels/backend.h"

namespace veery {

/// Maps names of parameters to operands and owns their memory.
class ParamStore {
 public:
  /// Called with bytes done and bytes in all.
  using Progress = std::function<void(size_t, size_t)>;

  /// Loads every parameter that `graph` names into memory of the backend: matrices as its kernels
  /// read them, single rows as f32. Releases the file's pages as soon as they are copied. A matrix
  /// that the backend reads in the file stays there, and the store keeps the mapping. Throws
  /// kFormat naming a tensor that is missing, has another shape than the definition says or holds
  /// scales that are not finite; kUnsupported naming a tensor whose type the backend has no layout
  /// for; kLimit with both numbers if the device has too little memory.
  void load(const ModelFile& file, const Graph& graph, ThreadPool& pool, Backend& backend,
            const Progress& progress = {});

  /// Lays out the parameters as load() does, in reserved host memory that is never touched: reads
  /// no weight, and all values are zeros. Allocates nothing on the backend's device. Throws the
  /// errors of load() that the file's header shows.
  void lay_out(const ModelFile& file, const Graph& graph, const Backend& backend);

  /// Uses the operands of `other`, which must outlive this store, for those of `names` that it has.
  /// load() then skips them.
  void borrow(const ParamStore& other, std::span<const std::string> names);

  /// Adds a zeroed row-major f32 matrix, for training and tests.
  Operand& add(const std::string& name, const Shape& shape);

  /// Throws kFormat naming the parameter if it is absent.
  const Operand& at(const std::string& name) const;
  size_t bytes() const { return bytes_; }
  bool is_unchanged() const {
    return std::ranges::all_of(mappings_, [](const auto& file) { return file->is_unchanged(); });
  }
  /// Throws FileChanged if a file whose weights are read in place has changed since it was opened.
  void check_unchanged() const {
    for (const auto& mapping : mappings_) mapping->check_unchanged();
  }

 private:
  std::map<std::string, Operand> operands_;
  std::vector<Memory> memory_;
  std::vector<std::shared_ptr<MappedFile>> mappings_;
  size_t bytes_ = 0;
};

/// The tensor that `node`, a parameter, names. Throws kFormat, kUnsupported as ParamStore::load().
const TensorView& checked_tensor(const ModelFile& file, const Node& node);
/// Whether a parameter is a matrix of products; other parameters are read element by element.
bool is_matrix(const Node& node);

/// Whether `tensor` has the shape of `node`, a parameter.
bool has_shape(const TensorView& tensor, const Node& node);

/// "576 x 192"
std::string shape_text(const std::vector<int64_t>& shape);

/// Bytes of a weight of any layout.
size_t stored_bytes(const Operand& operand);

}  // namespace veery
