// tensor_io.hpp: tensors in files (safetensors, NumPy, GGUF), exchange by DLPack, and quantised
// weights. docs/tensor.md is a guide.
//
// Errors are those of tensor.hpp. Files that violate their format throw kFormat, valid files with
// contents that tensors cannot hold throw kUnsupported, both naming the file and the tensor. Paths
// that do not exist throw kNotFound; the operating system's refusals throw kIo.
//
// Files are read lazily where their bytes are those of a tensor: the tensor then refers to the
// mapped file, which stays mapped as long as a tensor uses it. Replacing the file by a rename is
// allowed meanwhile, changing it in place is not.
//
// Files are written under a temporary name and renamed when they are complete, so that a failure
// keeps the previous file.
#ifndef VEERY_TENSOR_IO_HPP
#define VEERY_TENSOR_IO_HPP

#include <map>
#include <variant>
#include <veery/tensor.hpp>

struct DLManagedTensorVersioned;  // of DLPack, dlpack.h

namespace veery::tensor {

using TensorMap = std::map<std::string, Tensor>;

/// A mapped file.
class FileInUse {
 public:
  FileInUse() = default;
  explicit FileInUse(std::function<void()> check) : check_(std::move(check)) {}
  /// Throws kIo if the file was changed in place, cut off or could not be read since it was loaded.
  /// Values that were read from its tensors are wrong then.
  void check_unchanged() const {
    if (check_) check_();
  }

 private:
  std::function<void()> check_;
};

// ---- safetensors ----
// https://github.com/huggingface/safetensors

struct Safetensors {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
  FileInUse file;
};
/// Maps a file of BOOL, U8, I8, I32, U32, I64, F16, BF16, F32 and F64. Other types throw
/// kUnsupported. Tensors that are not aligned to their elements are copied when they are evaluated.
Safetensors load_safetensors(const std::string& path);
/// Evaluates and writes tensors. Views are written as what they show, in row-major order; tensors
/// that share memory are written once each. Names and metadata are UTF-8.
void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata = {});

// ---- NumPy ----
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

/// Maps a .npy file (version 1, 2 or 3) of bool, u1, i1, i4, u4, i8, f2, f4 or f8. Arrays in
/// Fortran order become transposed views. Arrays of the other byte order and arrays that are not
/// aligned to their elements are copied when they are evaluated.
Tensor load_npy(const std::string& path);
/// Evaluates and writes a tensor in row-major order. Throws kUnsupported for bf16, which NumPy
/// lacks: cast it to f32.
void save_npy(const std::string& path, const Tensor& x);

/// Reads all arrays of a .npz file, stored or deflated, and checks their CRC. Names have no ".npy".
/// Throws kLimit before it reads arrays that have more than `most_bytes` bytes together, and
/// kFormat for archives whose members overlap or promise more bytes than deflate can produce.
TensorMap load_npz(const std::string& path, size_t most_bytes = size_t{1} << 34);
enum class Compression : uint8_t { kStored, kDeflated };
/// As save_npy(), an archive of several. The same tensors give the same bytes.
void save_npz(const std::string& path, const TensorMap& tensors,
              Compression compression = Compression::kStored);

// ---- DLPack ----
// https://dmlc.github.io/dlpack/latest/c_api.html, version 1

/// Evaluates x and returns it as a DLPack tensor of the CPU, without a copy and read-only, or as a
/// writable copy. The consumer calls its deleter, or passes it to from_dlpack().
DLManagedTensorVersioned* to_dlpack(const Tensor& x, bool copy = false);
/// Uses the memory of a DLPack tensor without a copy and owns it from then on: its deleter is
/// called when no tensor uses the memory any more, as that of Tensor::borrow(). If it throws, the
/// caller still owns it. Throws kUnsupported for devices other than the CPU, types that Dtype lacks
/// and other major versions; kInput if shape, strides or address are invalid.
Tensor from_dlpack(DLManagedTensorVersioned* tensor);

// ---- quantised weights ----

struct QuantizedState;  // src/tensor/io/quantized.h

/// A constant matrix, or a stack of them, in blocks of a type of GGUF or MLX. A handle; copies
/// share their data. Types have ggml's names ("q4_K", "iq2_xxs", "mxfp4"); MLX's affine groups are
/// named by bits, group size and the type of their scales ("affine4_g64_bf16"). Types of plain
/// floats
/// ("bf16", "f32") are allowed, for products by the kernels of models.
class QuantizedTensor {
 public:
  QuantizedTensor() = default;  ///< no tensor
  /// Copies blocks: the rows of `shape` [.., rows, columns], one after the other. Columns must be
  /// whole blocks.
  static QuantizedTensor copy(const void* blocks, Shape shape, std::string_view type);
  /// Uses memory of the caller, as Tensor::borrow().
  static QuantizedTensor borrow(const void* blocks, Shape shape, std::string_view type,
                                std::function<void()> release);
  /// Joins the parts of a weight of MLX: `codes` u32 [.., rows, columns * bits / 32], `scales` and
  /// `biases` [.., rows, columns / group] (biases in mode "affine" only). Modes are those of
  /// mlx.core.quantize: affine, mxfp4, mxfp8, nvfp4. Rows of nvfp4 that are not whole blocks of 64
  /// become f32.
  static QuantizedTensor of_mlx(const Tensor& codes, const Tensor& scales,
                                const std::optional<Tensor>& biases, int group, int bits,
                                std::string_view mode = "affine");

  explicit operator bool() const { return state_ != nullptr; }
  const Shape& shape() const;
  std::string_view type() const;
  const void* blocks() const;
  size_t byte_size() const;  ///< of the blocks
  /// Matrix or row `index` of the first dimension, without a copy of the blocks. Keep the result
  /// for several products: the packed form belongs to it.
  QuantizedTensor at(int64_t index) const;

  explicit QuantizedTensor(std::shared_ptr<QuantizedState> state) : state_(std::move(state)) {}
  const std::shared_ptr<QuantizedState>& state() const { return state_; }

 private:
  std::shared_ptr<QuantizedState> state_;
};

/// Names of the types that quantize() can make.
std::vector<std::string> quantizable_types();
/// Evaluates x [.., columns], floats, and quantises its rows. Types of GGUF minimise the squared
/// error by a search; those of MLX have the bits of mlx.core.quantize for x in the type of the
/// scales, to which x is rounded (mxfp8: f32). Throws kUnsupported for a type that cannot be made,
/// kInput if rows are not whole blocks or for an element that is not finite.
QuantizedTensor quantize(const Tensor& x, std::string_view type);
/// The elements, decoded to f32 and rounded to a type of floats.
Tensor dequantize(const QuantizedTensor& q, Dtype type = Dtype::kF32);

/// x @ q^T: x [.., in] f32, f16 or bf16, q [out, in] -> [.., out] of the type of x.
///
/// The kernels, and so the bits, are those of `linear` in a served model (docs/numerics.md):
/// rows of x are rounded to int8 (bf16 for bf16 weights) unless `exact`, which multiplies f32 by
/// the decoded elements. The weight is packed for the kernels at its first product; the packed form
/// is kept with q and takes about as much memory as its blocks. Derivatives with respect to x are
/// products with the decoded elements in f32, which treats the rounding of x as the identity.
Tensor quantized_matmul(const Tensor& x, const QuantizedTensor& q, bool exact = false);

// ---- GGUF ----

using GgufValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;
struct Gguf {
  TensorMap tensors;                                 ///< f32, f16, bf16, f64, i8, i32, i64
  std::map<std::string, QuantizedTensor> quantized;  ///< all block types
  std::map<std::string, GgufValue> metadata;         ///< integers and floats are widened
  FileInUse file;
};
/// Maps a GGUF file, and the other parts if it is one of several. Shapes are in row-major order:
/// [out, in] for a linear weight. Throws kUnsupported for i16.
Gguf load_gguf(const std::string& path);

}  // namespace veery::tensor

#endif  // VEERY_TENSOR_IO_HPP
