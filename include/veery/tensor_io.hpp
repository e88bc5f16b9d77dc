// tensor_io.hpp: tensors in files (safetensors, NumPy). docs/tensor.md is a guide.
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
#include <veery/tensor.hpp>

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

}  // namespace veery::tensor

#endif  // VEERY_TENSOR_IO_HPP
