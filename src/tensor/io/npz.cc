// Tensors in .npz archives, which libzip reads and writes.
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>

#include "base/mapped_file.h"
#include "base/printable.h"
#include "file/output/pending_file.h"
#include "tensor/io/npy_array.h"
#include "tensor/io/stored.h"

namespace veery::tensor {
namespace {

constexpr std::string_view kSuffix = ".npy";
/// Archives count the bytes of names with 16 bits.
constexpr size_t kMostName = 0xFFFF - kSuffix.size();
/// No block of deflate expands by more: 258 bytes from 2 bits (RFC 1951).
constexpr uint64_t kMostExpansion = 1032;

struct ArchiveDeleter {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct MemberDeleter {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Archive = std::unique_ptr<zip_t, ArchiveDeleter>;
using Member = std::unique_ptr<zip_file_t, MemberDeleter>;

struct ZipError {
  ZipError() { zip_error_init(&error); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  ~ZipError() { zip_error_fini(&error); }
  std::string text() { return zip_error_strerror(&error); }
  zip_error_t error;
};

// ---- reading ----

class NpzReader {
 public:
  NpzReader(std::span<const std::byte> bytes, const std::string& file)
      : bytes_(bytes), file_(file) {
    if (bytes.empty())
      throw FileError(FileErrorKind::kFormat, "{}: not a .npz archive: empty", file_);
    ZipError error;
    zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error.error);
    if (source != nullptr) archive_.reset(zip_open_from_source(source, ZIP_RDONLY, &error.error));
    if (archive_ != nullptr) return;
    if (source != nullptr) zip_source_free(source);
    throw FileError(FileErrorKind::kFormat, "{}: not a .npz archive: {}", file_, error.text());
  }

  TensorMap read(size_t most_bytes) {
    const auto count = static_cast<uint64_t>(zip_get_num_entries(archive_.get(), 0));
    for (uint64_t i = 0; i < count; ++i) check(i);
    if (total_ > most_bytes)
      throw FileError(FileErrorKind::kLimit, "{}: arrays of {} bytes, expected at most {}", file_,
                      total_, most_bytes);
    TensorMap arrays;
    for (uint64_t i = 0; i < count; ++i) {
      const zip_stat_t stat = stat_of(i);
      std::string name = stat.name;
      name.resize(name.size() - kSuffix.size());
      if (!arrays.emplace(name, array(i, stat)).second)
        throw FileError(FileErrorKind::kFormat, "{}: array '{}' appears twice", file_,
                        printable(name));
    }
    return arrays;
  }

 private:
  zip_stat_t stat_of(uint64_t index) {
    zip_stat_t stat;
    constexpr uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                 ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(archive_.get(), index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded)
      throw FileError(FileErrorKind::kFormat, "{}: member {}: {}", file_, index,
                      zip_strerror(archive_.get()));
    return stat;
  }

  // Checks a member and adds its size to the total, before anything is allocated. The sizes that an
  // archive promises are bounded by its own.
  void check(uint64_t index) {
    const zip_stat_t stat = stat_of(index);
    const auto fail = [&](FileErrorKind kind, const std::string& what) {
      throw FileError(kind, "{}: member '{}' {}", file_, printable(stat.name), what);
    };
    const std::string_view name = stat.name;
    if (!name.ends_with(kSuffix) || name.size() == kSuffix.size())
      fail(FileErrorKind::kUnsupported, "is not an array, expected names that end in .npy");
    if (stat.encryption_method != ZIP_EM_NONE) fail(FileErrorKind::kUnsupported, "is encrypted");
    const bool deflated = stat.comp_method == ZIP_CM_DEFLATE;
    if (!deflated && stat.comp_method != ZIP_CM_STORE)
      fail(FileErrorKind::kUnsupported, fmt::format("is compressed by method {}, expected 0 "
                                                    "(stored) or 8 (deflated)",
                                                    stat.comp_method));
    if (deflated ? stat.size / kMostExpansion > stat.comp_size : stat.size != stat.comp_size)
      fail(FileErrorKind::kFormat,
           fmt::format("has {} bytes in {} compressed ones", stat.size, stat.comp_size));
    if (stat.comp_size > bytes_.size() - compressed_)
      fail(FileErrorKind::kFormat, "overlaps others, or the archive is cut off");
    compressed_ += stat.comp_size;
    total_ += stat.size;  // at most 1032 times the size of the file
  }

  Tensor array(uint64_t index, const zip_stat_t& stat) {
    const std::string name = fmt::format("{}: member '{}'", file_, printable(stat.name));
    const Member member(zip_fopen_index(archive_.get(), index, 0));
    if (member == nullptr)
      throw FileError(FileErrorKind::kFormat, "{}: {}", name, zip_strerror(archive_.get()));
    std::vector<std::byte> head(std::min<uint64_t>(stat.size, kMostNpyHeader));
    read_all(*member, head, name);
    const NpyHeader header = parse_npy_header(head, stat.size, name);
    const std::shared_ptr<Buffer> buffer = Buffer::allocate(header.data_bytes());
    const std::span<std::byte> data(buffer->data(), header.data_bytes());
    const size_t first = head.size() - header.data_at;
    std::copy(head.begin() + static_cast<ptrdiff_t>(header.data_at), head.end(), data.begin());
    read_all(*member, data.subspan(first), name);
    // The end of the data is where libzip compares the CRC.
    std::byte more;
    if (const zip_int64_t found = zip_fread(member.get(), &more, 1); found != 0)
      throw FileError(FileErrorKind::kFormat, "{}: {}", name,
                      found < 0 ? zip_file_strerror(member.get()) : "is longer than it should be");
    return npy_array(header, data.data(), buffer);
  }

  static void read_all(zip_file_t& member, std::span<std::byte> to, const std::string& name) {
    while (!to.empty()) {
      const zip_int64_t found = zip_fread(&member, to.data(), to.size());
      if (found <= 0)
        throw FileError(FileErrorKind::kFormat, "{}: {}", name,
                        found < 0 ? zip_file_strerror(&member) : "is cut off");
      to = to.subspan(static_cast<size_t>(found));
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  Archive archive_;
  uint64_t compressed_ = 0, total_ = 0;
};

// ---- writing ----

/// A target of libzip that writes to a pending file.
struct Sink {
  PendingFile& file;
  uint64_t position = 0, end = 0;
  ZipError error = {};
  std::exception_ptr failure = nullptr;

  zip_int64_t write(const void* data, uint64_t size) {
    try {
      file.write_at(position, data, size);
    } catch (...) {
      failure = std::current_exception();
      zip_error_set(&error.error, ZIP_ER_WRITE, 0);
      return -1;
    }
    position += size;
    end = std::max(end, position);
    return static_cast<zip_int64_t>(size);
  }
};

zip_int64_t serve_sink(void* state, void* data, zip_uint64_t size, zip_source_cmd_t command) {
  auto& sink = *static_cast<Sink*>(state);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS: return ZIP_SOURCE_SUPPORTS_WRITABLE;
    case ZIP_SOURCE_STAT: {
      auto* stat = static_cast<zip_stat_t*>(data);
      zip_stat_init(stat);
      stat->valid = ZIP_STAT_SIZE;
      stat->size = 0;
      return sizeof *stat;
    }
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&sink.error.error, data, size);
    case ZIP_SOURCE_WRITE: return sink.write(data, size);
    case ZIP_SOURCE_TELL_WRITE: return static_cast<zip_int64_t>(sink.position);
    case ZIP_SOURCE_SEEK_WRITE: {
      const zip_int64_t to =
          zip_source_seek_compute_offset(sink.position, sink.end, data, size, &sink.error.error);
      if (to < 0) return -1;
      sink.position = static_cast<uint64_t>(to);
      return 0;
    }
    default: return 0;  // nothing to open, close, commit or release
  }
}

/// An array of an archive, in memory until the archive is closed.
struct Written {
  std::string head;
  Data data;
  std::span<std::byte> bytes;
};

void add(zip_t* archive, const std::string& name, const Written& array, Compression compression) {
  const auto fail = [&] {
    throw FileError(FileErrorKind::kInput, "array '{}': {}", printable(name),
                    zip_strerror(archive));
  };
  zip_buffer_fragment_t parts[2] = {};
  parts[0].data = reinterpret_cast<zip_uint8_t*>(const_cast<char*>(array.head.data()));  // NOLINT
  parts[0].length = array.head.size();
  parts[1].data = reinterpret_cast<zip_uint8_t*>(array.bytes.data());
  parts[1].length = array.bytes.size();
  zip_source_t* source = zip_source_buffer_fragment(archive, parts, array.bytes.empty() ? 1 : 2, 0);
  if (source == nullptr) fail();
  const zip_int64_t index =
      zip_file_add(archive, (name + std::string(kSuffix)).c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    fail();
  }
  const auto at = static_cast<zip_uint64_t>(index);
  const bool deflated = compression == Compression::kDeflated;
  constexpr zip_uint16_t kFirstDay = 1 << 5 | 1;  // 1 January 1980, as numpy.savez
  if (zip_set_file_compression(archive, at, deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, at, 0, kFirstDay, 0) != 0)
    fail();
}

void write_archive(PendingFile& file, const TensorMap& tensors, const std::vector<Written>& arrays,
                   Compression compression) {
  if (tensors.empty()) {  // libzip removes empty archives
    constexpr char kEnd[22] = {'P', 'K', 5, 6};
    return file.write(kEnd, sizeof kEnd);
  }
  Sink sink{file};
  ZipError error;
  zip_source_t* source = zip_source_function_create(serve_sink, &sink, &error.error);
  Archive archive(source == nullptr
                      ? nullptr
                      : zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error.error));
  if (archive == nullptr) {
    if (source != nullptr) zip_source_free(source);
    throw FileError(FileErrorKind::kIo, "cannot write an archive: {}", error.text());
  }
  size_t i = 0;
  for (const auto& [name, x] : tensors) add(archive.get(), name, arrays[i++], compression);
  const int status = zip_close(archive.get());
  if (sink.failure) std::rethrow_exception(sink.failure);
  if (status != 0)
    throw FileError(FileErrorKind::kIo, "cannot write an archive: {}", zip_strerror(archive.get()));
  (void)archive.release();  // zip_close() has freed it
}

}  // namespace

TensorMap parse_npz(std::span<const std::byte> archive, const std::string& file,
                    size_t most_bytes) {
  return NpzReader(archive, file).read(most_bytes);
}

TensorMap load_npz(const std::string& path, size_t most_bytes) {
  return with_errors("load_npz", [&] {
    const MappedFile mapping(path);
    return mapping.checked(
        [&] { return parse_npz(mapping.bytes(), shown_path(path), most_bytes); });
  });
}

void save_npz(const std::string& path, const TensorMap& tensors, Compression compression) {
  std::vector<Tensor> values;
  std::vector<Written> arrays;
  for (const auto& [name, x] : tensors) {
    if (name.empty() || name.find('\0') != std::string::npos)
      fail(ErrorKind::kInput, "save_npz: an array cannot have the name '{}'", printable(name));
    if (name.size() > kMostName)
      fail(ErrorKind::kInput, "save_npz: the name '{}' has {} bytes, expected at most {}",
           printable(name), name.size(), kMostName);
    arrays.push_back({npy_head("save_npz", fmt::format("'{}'", printable(name)), x), {}, {}});
    values.push_back(x);
  }
  eval(values);
  with_errors("save_npz", [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      arrays[i].data = row_major(values[i]);
      arrays[i].bytes = bytes_of(spec(values[i]), arrays[i].data);
    }
    PendingFile file(path);
    write_archive(file, tensors, arrays, compression);
    file.commit();
  });
}

}  // namespace veery::tensor
