// Tensors in .npy files.
#include "file/output/npy.h"

#include <algorithm>
#include <veery/tensor_io.hpp>

#include "base/mapped_file.h"
#include "file/output/pending_file.h"
#include "tensor/io/npy_array.h"
#include "tensor/io/stored.h"

namespace veery::tensor {

Tensor npy_array(const NpyHeader& header, const std::byte* data,
                 std::shared_ptr<const void> owner) {
  Shape shape = header.shape;
  if (header.fortran) std::reverse(shape.begin(), shape.end());
  const Tensor x =
      from_bytes({data, std::move(owner), header.swapped}, std::move(shape), header.dtype);
  return header.fortran ? transpose(x) : x;
}

std::string npy_head(std::string_view function, const std::string& name, const Tensor& x) {
  require(function, x);
  const std::string_view type = npy_type(x.dtype());
  if (type.empty())
    fail(ErrorKind::kUnsupported, "{}: {} has the type bf16, which NumPy lacks: cast it to f32",
         function, name);
  return npy_header(std::string(type), x.shape());
}

Tensor load_npy(const std::string& path) {
  return with_errors("load_npy", [&] {
    const auto mapping = std::make_shared<const MappedFile>(path);
    const std::span<const std::byte> bytes = mapping->bytes();
    const NpyHeader header = mapping->checked([&] {
      return parse_npy_header(bytes.first(std::min(bytes.size(), kMostNpyHeader)), bytes.size(),
                              shown_path(path));
    });
    return npy_array(header, bytes.data() + header.data_at, mapping);
  });
}

void save_npy(const std::string& path, const Tensor& x) {
  const std::string head = npy_head("save_npy", "the tensor", x);
  x.eval();
  with_errors("save_npy", [&] {
    PendingFile file(path);
    file.write(head.data(), head.size());
    each_piece(x, [&](size_t, std::span<const std::byte> bytes) {
      file.write(bytes.data(), bytes.size());
    });
    file.commit();
  });
}

}  // namespace veery::tensor
