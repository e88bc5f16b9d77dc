// model_file.h: the common form of all weight files: named tensor views, configuration, metadata.
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

/// A GGUF metadata value. Numbers are widened; arrays are flat.
using MetaValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string_view>>;

/// A map from keys to values; string views in it stay valid as long as the file.
class Metadata {
 public:
  void set(std::string key, MetaValue value) { values_[std::move(key)] = std::move(value); }
  /// Sets an array of strings that no file contains; the strings are stored here.
  void set_texts(std::string key, std::vector<std::string> texts);
  const MetaValue* find(const std::string& key) const;
  const std::map<std::string, MetaValue>& all() const { return values_; }
  /// Removes all arrays. A vocabulary of 262,144 tokens takes 8 MB, which a tokenizer does not need
  /// once it is built.
  void drop_arrays();

  /// Return the value if the key exists. Throw kFormat naming key, found and expected type if it
  /// has another type.
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

/// Rows that are computed on demand because no file contains them in the required form: scaled fp8,
/// norms with an added 1, misaligned tensors.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Writes the rows [first, last) in the tensor's type. Thread-safe.
  virtual void read(int64_t first, int64_t last, std::byte* out) const = 0;
};

/// A view of one tensor. `shape` is row-major, slowest dimension first: a linear weight has shape
/// {out, in}. A row is the last dimension.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  ///< empty if there is a source
  std::shared_ptr<const RowSource> source = nullptr;
  int64_t elements() const;
  /// Elements of a row; a scalar may have no dimensions.
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  size_t bytes() const;
  /// Returns all bytes: `data`, or the output of the source, stored in `buffer`.
  std::span<const std::byte> read(std::vector<std::byte>& buffer) const;
};

/// Returns whether two tensors have the same type, shape and bytes. Reads both.
bool same_tensor(const TensorView& a, const TensorView& b);

/// Throws kFormat naming tensor and block if a scale (for plain types: an element) is NaN or
/// infinite. Reads the whole tensor. Integer types pass.
void check_finite_scales(const TensorView& tensor, size_t begin = 0, size_t bytes = SIZE_MAX);

/// The container of the weights; conventions differ (names, RoPE pairs, norms).
enum class Container : uint8_t { kGguf, kFolder };

/// An opened model; owns the mappings that its views refer to.
class ModelFile {
 public:
  std::string path;
  Container container = Container::kGguf;
  /// For folders: facts from JSON files other than config.json, under GGUF's keys (general.name,
  /// general.sampling.*, tokenizer.chat_template).
  Metadata metadata;
  /// For folders: config.json; nullptr for GGUF.
  std::shared_ptr<const Json> config;
  std::vector<TensorView> tensors;
  std::vector<std::shared_ptr<MappedFile>> mappings;

  const TensorView* find(std::string_view name) const;
  /// Throws kFormat naming the tensor if it is absent.
  const TensorView& at(std::string_view name) const;
  /// Throws FileChanged if a mapped file changed since it was opened, which invalidates everything
  /// computed from it.
  void check_unchanged() const;
  /// As MappedFile::checked(), for all mappings.
  template <typename F>
  auto checked(F&& use) const {
    return checked_use(*this, use);
  }
  /// Returns the mapping that contains the data of `tensor`; nullptr if none does.
  std::shared_ptr<MappedFile> mapping_of(const TensorView& tensor) const;
  /// Drops the pages of a tensor from resident memory, e.g. after it was copied elsewhere.
  void release(const TensorView& tensor, size_t begin = 0, size_t bytes = SIZE_MAX) const;
  /// Drops all pages, including metadata.
  void release_all() const;
};

}  // namespace veery
