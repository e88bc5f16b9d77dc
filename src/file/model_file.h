// model_file.h: what every container of weights becomes: named tensor views, configuration,
// metadata.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "dtype/dtype.h"

namespace veery {

class Json;

/// A value of GGUF metadata. Numbers are widened; arrays of strings and numbers are kept flat.
using MetaValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string_view>>;

/// Key -> value; the views in it live as long as the file.
class Metadata {
 public:
  void set(std::string key, MetaValue value) { values_[std::move(key)] = std::move(value); }
  /// The same for texts that no file holds: they are kept.
  void set_texts(std::string key, std::vector<std::string> texts);
  const MetaValue* find(const std::string& key) const;
  const std::map<std::string, MetaValue>& all() const { return values_; }
  /// Forgets every array: a vocabulary of 262,144 tokens takes 8 MB, which a tokenizer does not
  /// need once it is made.
  void drop_arrays();

  /// The value if it is there. Throws kFormat naming key, found and expected type if it has another
  /// type.
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  const std::vector<std::string_view>* texts(const std::string& key) const;  ///< nullptr: absent
  const std::vector<int64_t>* integers(const std::string& key) const;
  const std::vector<double>* numbers(const std::string& key) const;

 private:
  std::map<std::string, MetaValue> values_;
  std::vector<std::shared_ptr<const std::vector<std::string>>> held_;
};

/// Rows that are computed when they are needed, because no file holds them as they are used: scaled
/// fp8, norms with a 1 to add, tensors that lie at an odd address.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Writes the rows [first, last) in the tensor's type. Safe to call from several threads.
  virtual void read(int64_t first, int64_t last, std::byte* out) const = 0;
};

/// A view of one tensor. `shape` is row-major, slowest first: a linear weight is {out, in}; a row
/// is the last dimension.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  ///< empty if there is a source
  std::shared_ptr<const RowSource> source = nullptr;
  int64_t elements() const;
  /// Of a row; a single number may have no dimensions.
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  size_t bytes() const;
  /// The bytes as a whole: `data`, or what the source makes of it in `buffer`.
  std::span<const std::byte> read(std::vector<std::byte>& buffer) const;
};

/// Whether both have the same type, shape and bytes. Reads both.
bool same_tensor(const TensorView& a, const TensorView& b);

/// Throws kFormat naming tensor and block if a scale (of a plain type: an element) is NaN or
/// infinite. Reads the whole tensor. Types of integers pass.
void check_finite_scales(const TensorView& tensor, size_t begin = 0, size_t bytes = SIZE_MAX);

/// Where weights come from; some conventions differ (names, RoPE pairs, norms).
enum class Container : uint8_t { kGguf, kFolder };

/// An opened model: owns the mappings that the views look into.
class ModelFile {
 public:
  std::string path;
  Container container = Container::kGguf;
  /// Of a folder: what its JSON files say beyond the configuration, under GGUF's keys
  /// (general.name, general.sampling.*, tokenizer.chat_template).
  Metadata metadata;
  /// Of a folder: config.json. Null for GGUF.
  std::shared_ptr<const Json> config;
  std::vector<TensorView> tensors;
  std::vector<std::shared_ptr<MappedFile>> mappings;

  const TensorView* find(std::string_view name) const;
  /// Throws kFormat naming the tensor if it is absent.
  const TensorView& at(std::string_view name) const;
  /// Throws FileChanged if one of the mapped files is not as it was opened: what was computed from
  /// them is void.
  void check_unchanged() const;
  /// MappedFile::checked() of all of them.
  template <typename F>
  auto checked(F&& use) const {
    return checked_use(*this, use);
  }
  /// The mapping that holds the data of `tensor`; nullptr if it lies elsewhere.
  std::shared_ptr<MappedFile> mapping_of(const TensorView& tensor) const;
  /// Drops the pages of a tensor that has been copied elsewhere from resident memory.
  void release(const TensorView& tensor, size_t begin = 0, size_t bytes = SIZE_MAX) const;
  /// The same for everything, metadata included.
  void release_all() const;
};

}  // namespace veery
