// Tensors in files: safetensors and NumPy's arrays and archives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "support/file_size_limit.h"
#include "support/models.h"
#include "support/temporary_folder.h"
#include "tensor/errors.h"
#include "tensor/reference.h"
#include "veery/tensor_io.hpp"

namespace veery::tensor {
namespace {

using test::expect_error;
using veery::test::fixture_path;
using veery::test::read_text;
using veery::test::TemporaryFolder;

constexpr Dtype kTypes[] = {Dtype::kBool, Dtype::kU8,  Dtype::kI8,   Dtype::kI32, Dtype::kU32,
                            Dtype::kI64,  Dtype::kF16, Dtype::kBF16, Dtype::kF32, Dtype::kF64};

std::string seed(const std::string& name) {
  return std::string(VEERY_SOURCE_DIR) + "/fuzz/corpus/npy/" + name;
}

std::string bytes_of(const Tensor& x) {
  std::string bytes(static_cast<size_t>(x.size()) * byte_size(x.dtype()), '\0');
  x.copy_to(bytes.data());
  return bytes;
}
void expect_same(const Tensor& a, const Tensor& b, const std::string& what) {
  EXPECT_EQ(a.shape(), b.shape()) << what;
  EXPECT_EQ(a.dtype(), b.dtype()) << what;
  EXPECT_EQ(bytes_of(a), bytes_of(b)) << what;
}

// Tensors of all types, with views, scalars, empty ones and shared memory.
TensorMap tensors_of_all_kinds(bool with_bf16) {
  TensorMap all;
  for (const Dtype type : kTypes) {
    if (type == Dtype::kBF16 && !with_bf16) continue;
    const Tensor x = type == Dtype::kBool ? test::numbers({3, 5, 7}, Dtype::kF32, 5) > 0
                                          : test::numbers({3, 5, 7}, type, 5, 0, 100);
    const std::string own(name(type));
    all[own] = x;
    all[own + "/transposed"] = transpose(x, {2, 0, 1});
    all[own + "/slice"] = slice(x, {{2, {}, -2}, {1, 4, 2}, {{}, {}, -3}});
    all[own + "/broadcast"] = broadcast_to(slice(x, {{0, 1, 1}, {0, 5, 1}, {3, 4, 1}}), {2, 5, 4});
    all[own + "/scalar"] = reshape(slice(x, {{1, 2, 1}, {1, 2, 1}, {1, 2, 1}}), {});
    all[own + "/empty"] = zeros({4, 0, 2}, type);
    all[own + "/shared"] = x;
  }
  return all;
}

// A large view is written in pieces.
Tensor large_view() { return transpose(test::numbers({1700, 3, 1100}, Dtype::kF32, 9), {2, 1, 0}); }

std::string with_header(const std::string& header, const std::string& data = "") {
  uint64_t size = header.size();
  std::string text(sizeof size, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  return text + header + data;
}

TEST(SafetensorsFiles, RoundTripToTheBit) {
  const TemporaryFolder folder;
  TensorMap all = tensors_of_all_kinds(true);
  all["large view"] = large_view();
  save_safetensors(folder.file("a"), all, {{"format", "pt"}, {"gr\u00fc\u00df", "\u00e4"}});
  const Safetensors read = load_safetensors(folder.file("a"));
  EXPECT_EQ(read.metadata.at("gr\u00fc\u00df"), "\u00e4");
  ASSERT_EQ(read.tensors.size(), all.size());
  for (const auto& [name, x] : all) expect_same(read.tensors.at(name), x, name);
  EXPECT_EQ(folder.entries(), 1U);
  read.file.check_unchanged();
}

TEST(SafetensorsFiles, ReadThoseOfPython) {
  const Safetensors file = load_safetensors(fixture_path("tensor/python.safetensors"));
  EXPECT_EQ(file.metadata.at("note"), "gr\u00fc\u00df");
  const TensorMap& all = file.tensors;
  EXPECT_EQ(all.size(), 11U);
  EXPECT_EQ(all.at("bool").values<bool>(), (std::vector<bool>{1, 0, 1, 0, 0, 1}));
  EXPECT_EQ(all.at("bool").shape(), (Shape{2, 3}));
  EXPECT_EQ(all.at("u8").values<uint8_t>(), (std::vector<uint8_t>{250, 251, 252, 253, 254, 255}));
  EXPECT_EQ(all.at("i8").values<int8_t>(), (std::vector<int8_t>{-128, -1, 0, 127}));
  EXPECT_EQ(all.at("i32").values<int64_t>(), (std::vector<int64_t>{-2147483648, 2147483647}));
  EXPECT_EQ(all.at("u32").values<int64_t>(), (std::vector<int64_t>{0, 4294967295}));
  EXPECT_EQ(all.at("i64").values<int64_t>(), (std::vector<int64_t>{INT64_MIN, INT64_MAX, 5}));
  EXPECT_EQ(all.at("f16").values<float>(), (std::vector<float>{1.5F, -2.25F, 65504, 0x1p-24F}));
  EXPECT_EQ(all.at("bf16").dtype(), Dtype::kBF16);
  EXPECT_EQ(all.at("bf16").values<float>()[1], -2.25F);
  EXPECT_EQ(all.at("f32").values<float>(), (std::vector<float>{0.1F, -0.0F, HUGE_VALF, 0x1p-149F}));
  EXPECT_EQ(all.at("f64").item<double>(), 0.1);
  EXPECT_EQ(all.at("f64").rank(), 0);
  EXPECT_EQ(all.at("empty").shape(), (Shape{0, 3}));
}

// A header of a length that is no multiple of 8, and tensors in an order without alignment.
TEST(SafetensorsFiles, UnalignedTensorsAreRead) {
  const TemporaryFolder folder;
  const float values[] = {1.5F, -2};
  std::string data = "\x07";
  data.append(reinterpret_cast<const char*>(values), sizeof values);
  data += std::string("\x00\x02\x01", 3);
  folder.write("a", with_header(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},)"
                                R"("o":{"dtype":"BOOL","shape":[3],"data_offsets":[9,12]}})",
                                data));
  const Safetensors file = load_safetensors(folder.file("a"));
  EXPECT_EQ(file.tensors.at("f").values<float>(), (std::vector<float>{1.5F, -2}));
  EXPECT_EQ(file.tensors.at("b").item<int64_t>(), 7);
  EXPECT_EQ(file.tensors.at("o").values<uint8_t>(), (std::vector<uint8_t>{0, 1, 1}));
  const Tensor loaded = file.tensors.at("f");
  const std::vector<Tensor> x{loaded};
  const auto gradient = grad([](std::span<const Tensor> in) { return sum(square(in[0])); })(x);
  EXPECT_EQ(gradient[0].values<float>(), (std::vector<float>{3, -4}));
}

TEST(SafetensorsFiles, AreMappedWhileATensorUsesThem) {
  const TemporaryFolder folder;
  const Tensor x = test::numbers({100}, Dtype::kF32, 1);
  save_safetensors(folder.file("a"), {{"x", x}});
  Tensor part;
  {
    const Safetensors file = load_safetensors(folder.file("a"));
    const size_t before = memory_use().active;
    part = slice(file.tensors.at("x"), {{50, {}, 1}});
    part.eval();
    EXPECT_EQ(memory_use().active, before) << "views of the mapping need no memory";
    save_safetensors(folder.file("a"), {{"x", file.tensors.at("x") * 2}});  // replaces it
    file.file.check_unchanged();
  }
  EXPECT_EQ(bytes_of(part), bytes_of(slice(x, {{50, {}, 1}})));
}

TEST(SafetensorsFiles, AFileThatIsCutOffIsNoticed) {
  const TemporaryFolder folder;
  save_safetensors(folder.file("a"), {{"x", ones({100000})}});
  const Safetensors file = load_safetensors(folder.file("a"));
  std::filesystem::resize_file(folder.file("a"), 5000);
  sum(file.tensors.at("x")).eval();  // the missing pages are zeros
  VEERY_EXPECT_ERROR(kIo, file.file.check_unchanged(), folder.file("a"));
}

TEST(SafetensorsFiles, OtherTypesAreNamed) {
  const TemporaryFolder folder;
  for (const auto& [type, size] : std::map<std::string, int>{
           {"I16", 2}, {"U16", 2}, {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"C64", 8}}) {
    folder.write(
        "a", with_header("{\"w\":{\"dtype\":\"" + type + "\",\"shape\":[1],\"data_offsets\":[0," +
                             std::to_string(size) + "]}}",
                         std::string(static_cast<size_t>(size), 'x')));
    VEERY_EXPECT_ERROR(kUnsupported, load_safetensors(folder.file("a")), "'w'", type,
                       folder.file("a"));
  }
}

TEST(SafetensorsFiles, HostileFilesAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](ErrorKind kind, const std::string& bytes, const std::string& message) {
    folder.write("a", bytes);
    expect_error(
        kind, [&] { load_safetensors(folder.file("a")); }, message);
  };
  const std::string whole = read_text(fixture_path("tensor/python.safetensors"));
  for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{100}, whole.size() - 1}) {
    folder.write("a", whole.substr(0, size));
    VEERY_EXPECT_ERROR(kFormat, load_safetensors(folder.file("a")));
  }
  refused(ErrorKind::kFormat, whole + "x", "tensors end at byte");
  refused(ErrorKind::kFormat,
          with_header(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}})", "abcd"),
          "its shape and type F32 need 12");
  refused(
      ErrorKind::kFormat,
      with_header(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})"),
      "63 bits");
  refused(ErrorKind::kUnsupported,
          with_header(
              R"({"w":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})"),
          "'w' has the shape [0, 4294967296, 4294967296]");
  VEERY_EXPECT_ERROR(kNotFound, load_safetensors(folder.file("none")), "none");
  VEERY_EXPECT_ERROR(kIo, load_safetensors(folder.path()), "folder");
}

TEST(SafetensorsFiles, NamesAreChecked) {
  const TemporaryFolder folder;
  const auto save = [&](const TensorMap& all) { save_safetensors(folder.file("a"), all); };
  VEERY_EXPECT_ERROR(kInput, save({{"__metadata__", ones({1})}}), "__metadata__");
  VEERY_EXPECT_ERROR(kInput, save({{"", ones({1})}}));
  VEERY_EXPECT_ERROR(kInput, save({{"\xff", ones({1})}}), "UTF-8");
  VEERY_EXPECT_ERROR(kInput, save({{"x", Tensor()}}), "no tensor");
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(TensorFiles, AFullDiskKeepsTheOldFile) {
  const TemporaryFolder folder;
  const Tensor x = test::numbers({1000}, Dtype::kF32, 2), larger = ones({100000});
  save_safetensors(folder.file("a"), {{"x", x}});
  save_npy(folder.file("b"), x);
  save_npz(folder.file("c"), {{"x", x}});
  larger.eval();
  {
    const veery::test::FileSizeLimit limit(10000);
    VEERY_EXPECT_ERROR(kIo, save_safetensors(folder.file("a"), {{"x", larger}}), folder.file("a"));
    VEERY_EXPECT_ERROR(kIo, save_npy(folder.file("b"), larger), folder.file("b"));
    VEERY_EXPECT_ERROR(kIo, save_npz(folder.file("c"), {{"x", larger}}), folder.file("c"));
  }
  EXPECT_EQ(folder.entries(), 3U);
  expect_same(load_safetensors(folder.file("a")).tensors.at("x"), x, "safetensors");
  expect_same(load_npy(folder.file("b")), x, "npy");
  expect_same(load_npz(folder.file("c")).at("x"), x, "npz");
}

TEST(NpyFiles, RoundTripToTheBit) {
  const TemporaryFolder folder;
  TensorMap all = tensors_of_all_kinds(false);
  all["large view"] = large_view();
  for (const auto& [name, x] : all) {
    save_npy(folder.file("a.npy"), x);
    expect_same(load_npy(folder.file("a.npy")), x, name);
  }
}

TEST(NpyFiles, ReadThoseOfNumpy) {
  const Tensor x = reshape(arange(0, 6, 1, Dtype::kF32), {2, 3}) / 4;
  for (const char* name : {"f4.npy", "f4_v2.npy", "f4_v3.npy", "f4_fortran.npy"})
    expect_same(load_npy(seed(name)), x, name);
  EXPECT_EQ(load_npy(seed("f8_big_endian.npy")).values<double>(),
            (std::vector<double>{0.1, -2, 1e300}));
  expect_same(load_npy(seed("i8_big_endian_fortran.npy")),
              reshape(arange(0, 6, 1, Dtype::kI64), {3, 2}), "big endian");
  expect_same(load_npy(seed("scalar.npy")), full({}, 7, Dtype::kI32), "scalar");
  expect_same(load_npy(seed("empty.npy")), zeros({0, 4}, Dtype::kU32), "empty");
  EXPECT_EQ(load_npy(seed("bool.npy")).values<bool>(), (std::vector<bool>{1, 0, 1}));
  EXPECT_EQ(load_npy(seed("i1.npy")).values<int8_t>(), (std::vector<int8_t>{-3, 4}));
  EXPECT_EQ(load_npy(seed("u1.npy")).values<uint8_t>(), (std::vector<uint8_t>{200, 4}));
  EXPECT_EQ(load_npy(seed("f2.npy")).values<float>(), (std::vector<float>{1.5F, -0.25F}));
}

TEST(NpyFiles, ThoseOfNumpyAreWrittenAgainByteForByte) {
  const TemporaryFolder folder;
  for (const char* name : {"f2.npy", "bool.npy", "i1.npy", "u1.npy", "scalar.npy", "empty.npy"}) {
    const Tensor x = load_npy(seed(name));
    save_npy(folder.file("a"), x);
    const std::string own = read_text(folder.file("a")), of_numpy = read_text(seed(name));
    EXPECT_EQ(own.size() % 64, of_numpy.size() % 64) << name;
    EXPECT_EQ(own.substr(own.find('\n')), of_numpy.substr(of_numpy.find('\n'))) << name;
  }
}

TEST(NpyFiles, OtherTypesAreNamed) {
  VEERY_EXPECT_ERROR(kUnsupported, load_npy(seed("c16.npy")), "'<c16'", "c16.npy");
  VEERY_EXPECT_ERROR(kUnsupported, load_npy(seed("fields.npy")), "fields");
  const TemporaryFolder folder;
  VEERY_EXPECT_ERROR(kUnsupported, save_npy(folder.file("a"), ones({2}, Dtype::kBF16)), "bf16",
                     "cast");
  VEERY_EXPECT_ERROR(kUnsupported, save_npz(folder.file("a"), {{"w", ones({2}, Dtype::kBF16)}}),
                     "'w'", "bf16", "cast");
  EXPECT_EQ(folder.entries(), 0U);
}

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string text("\x93NUMPY", 6);
  text += {version, 0, static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  if (version > 1) text += {0, 0};
  return text + header + data;
}

TEST(NpyFiles, HeadersInAnyPythonSyntaxAreRead) {
  const TemporaryFolder folder;
  const std::string data = "\x01\x02\x03";
  for (const char* header : {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n",
                             "{'shape':(3L,),'fortran_order':True,'descr':'u1'}",
                             "{\"descr\" : \"=u1\" ,\n"
                             " 'shape' : ( 3 , ) , 'fortran_order':False }   ",
                             "{'descr': '>u1', 'fortran_order': False, 'shape': (1, 3)}"}) {
    folder.write("a", npy(header, data));
    EXPECT_EQ(load_npy(folder.file("a")).values<uint8_t>(), (std::vector<uint8_t>{1, 2, 3}))
        << header;
  }
}

TEST(NpyFiles, HostileFilesAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](ErrorKind kind, const std::string& bytes, const std::string& message) {
    folder.write("a", bytes);
    expect_error(
        kind, [&] { load_npy(folder.file("a")); }, message, folder.file("a"));
  };
  const std::string whole = read_text(seed("f4.npy"));
  for (size_t size = 0; size < whole.size(); ++size) {
    folder.write("a", whole.substr(0, size));
    VEERY_EXPECT_ERROR(kFormat, load_npy(folder.file("a")));
  }
  const auto header = [](const std::string& shape, const std::string& type = "<f4") {
    return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + "}";
  };
  refused(ErrorKind::kFormat, whole + "x", "25 bytes of data");
  refused(ErrorKind::kFormat, npy(header("(2,)"), "abcd"), "need 8");
  refused(ErrorKind::kFormat, npy(header("(2)"), "abcdefgh"), "tuple");
  refused(ErrorKind::kFormat, npy(header("(-1,)"), ""), "a number");
  refused(ErrorKind::kFormat, npy(header("(99999999999999999999,)"), ""), "63 bits");
  refused(ErrorKind::kFormat, npy(header("(4294967296,4294967296)"), ""), "63 bits");
  refused(ErrorKind::kFormat, npy(header("(0,4294967296,4294967296)"), ""), "63 bits");
  refused(ErrorKind::kUnsupported, npy(header("(1,1,1,1,1,1,1,1,1)"), "abcd"), "8 dimensions");
  refused(ErrorKind::kUnsupported, npy(header("(1,)", "|O"), "abcdefgh"), "'|O'");
  refused(ErrorKind::kUnsupported, npy(header("(1,)", "|f4"), "abcd"), "'|f4'");
  refused(ErrorKind::kFormat, npy("{'descr': '<f4', 'shape': (1,)}", "abcd"), "fortran_order");
  refused(ErrorKind::kFormat, npy("{'descr': '<f4', 'descr': '<f4'}", "abcd"), "twice");
  refused(ErrorKind::kFormat, npy("{'other': 1}", ""), "'other'");
  refused(ErrorKind::kFormat, npy(header("(1,)") + "x", "abcd"), "the end of the header");
  refused(ErrorKind::kUnsupported, npy(header("(1,)"), "abcd", 4), "version 4.0");
  refused(ErrorKind::kUnsupported, std::string("\x93NUMPY\x02\0\xff\xff\xff\x7f", 12),
          "a header of");
  VEERY_EXPECT_ERROR(kNotFound, load_npy(folder.file("none")), "none");
}

TEST(NpzFiles, RoundTripToTheBit) {
  const TemporaryFolder folder;
  TensorMap all = tensors_of_all_kinds(false);
  all["zeros"] = zeros({1000, 100});
  all["gr\u00fc\u00df"] = ones({2});
  size_t sizes[2] = {};
  for (const Compression compression : {Compression::kStored, Compression::kDeflated}) {
    save_npz(folder.file("a"), all, compression);
    const TensorMap read = load_npz(folder.file("a"));
    ASSERT_EQ(read.size(), all.size());
    for (const auto& [name, x] : all) expect_same(read.at(name), x, name);
    const std::string bytes = read_text(folder.file("a"));
    sizes[compression == Compression::kDeflated ? 1 : 0] = bytes.size();
    save_npz(folder.file("a"), all, compression);
    EXPECT_EQ(read_text(folder.file("a")), bytes) << "the same tensors give the same bytes";
  }
  EXPECT_GT(sizes[0], 400000U);
  EXPECT_LT(sizes[1], sizes[0] - 390000);
  save_npz(folder.file("a"), {});
  EXPECT_TRUE(load_npz(folder.file("a")).empty());
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(NpzFiles, ReadThoseOfNumpy) {
  const TensorMap stored = load_npz(seed("stored.npz"));
  const Tensor x = reshape(arange(0, 6, 1, Dtype::kF32), {2, 3}) / 4;
  ASSERT_EQ(stored.size(), 3U);
  expect_same(stored.at("a"), x, "a");
  expect_same(stored.at("c/d"), x, "c/d");
  EXPECT_EQ(stored.at("b").values<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
  const TensorMap deflated = load_npz(seed("deflated.npz"));
  expect_same(deflated.at("zeros"), zeros({40, 50}), "zeros");
  EXPECT_EQ(deflated.at("text").values<uint8_t>(), (std::vector<uint8_t>{0, 1, 2, 3}));
}

// Replaces `size` bytes at each place after a signature.
std::string patched(std::string bytes, const std::string& signature, size_t offset,
                    const std::string& with) {
  for (size_t at = bytes.find(signature); at != std::string::npos;
       at = bytes.find(signature, at + 1))
    bytes.replace(at + offset, with.size(), with);
  return bytes;
}

TEST(NpzFiles, HostileFilesAreRefused) {
  const TemporaryFolder folder;
  const std::string local = "PK\x03\x04", central = "PK\x01\x02";
  const auto refused = [&](ErrorKind kind, const std::string& bytes, const std::string& message) {
    folder.write("a", bytes);
    expect_error(
        kind, [&] { load_npz(folder.file("a")); }, message, folder.file("a"));
  };
  save_npz(folder.file("b"), {{"w", test::numbers({50}, Dtype::kF32, 3)}});
  const std::string stored = read_text(folder.file("b"));
  save_npz(folder.file("b"), {{"w", zeros({5000})}}, Compression::kDeflated);
  const std::string deflated = read_text(folder.file("b"));
  for (const size_t size : {size_t{0}, size_t{3}, size_t{50}, stored.size() - 1})
    refused(ErrorKind::kFormat, stored.substr(0, size), "not a .npz archive");
  std::string flipped = stored;
  flipped[180] = static_cast<char>(flipped[180] ^ 1);  // in the data
  refused(ErrorKind::kFormat, flipped, "CRC");
  refused(ErrorKind::kFormat, patched(deflated, central, 24, "\xff\xff\xff\x7f"), "bytes in");
  refused(ErrorKind::kFormat, patched(stored, central, 24, std::string("\x20\0\0\0", 4)),
          "bytes in");
  refused(ErrorKind::kUnsupported,
          patched(patched(stored, central, 10, std::string("\x0c\0", 2)), local, 8,
                  std::string("\x0c\0", 2)),
          "method 12");
  refused(ErrorKind::kUnsupported,
          patched(patched(stored, central, 8, std::string("\x01\0", 2)), local, 6,
                  std::string("\x01\0", 2)),
          "encrypted");
  refused(ErrorKind::kUnsupported, patched(patched(stored, "w.npy", 0, "w.txt"), "x", 0, ""),
          "'w.txt' is not an array");
  folder.write("a", deflated);
  VEERY_EXPECT_ERROR(kLimit, load_npz(folder.file("a"), 20000), "20128", "20000");
  EXPECT_EQ(load_npz(folder.file("a"), 20128).at("w").size(), 5000);
}

// A bomb of members that share their compressed bytes (Fifield, WOOT 2019) has more compressed
// bytes than the archive.
TEST(NpzFiles, MembersThatOverlapAreRefused) {
  const TemporaryFolder folder;
  save_npz(folder.file("a"), {{"w", test::numbers({500}, Dtype::kF32, 3)}});
  const std::string one = read_text(folder.file("a"));
  const size_t directory = one.find("PK\x01\x02"), end = one.find("PK\x05\x06");
  std::string entry = one.substr(directory, end - directory);
  std::string bytes = one.substr(0, end);
  entry.replace(entry.find("w.npy"), 1, "v");
  bytes += entry;
  std::string tail = one.substr(end);
  tail[8] = tail[10] = 2;
  const auto size = static_cast<uint32_t>(2 * entry.size());
  std::memcpy(tail.data() + 12, &size, sizeof size);
  folder.write("b", bytes + tail);
  VEERY_EXPECT_ERROR(kFormat, load_npz(folder.file("b")), "overlaps");
}

TEST(NpzFiles, NamesAreChecked) {
  const TemporaryFolder folder;
  const auto save = [&](const TensorMap& all) { save_npz(folder.file("a"), all); };
  VEERY_EXPECT_ERROR(kInput, save({{"", ones({1})}}), "name ''");
  VEERY_EXPECT_ERROR(kInput, save({{"\xff", ones({1})}}), "array");
  VEERY_EXPECT_ERROR(kInput, save({{std::string(70000, 'a'), ones({1})}}), "70000 bytes", "65531");
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(NpzFiles, ALackOfMemoryIsReported) {
  const TemporaryFolder folder;
  save_npz(folder.file("a"), {{"w", zeros({1 << 20})}}, Compression::kDeflated);
  clear_cache();
  set_memory_limit(memory_use().active + (1 << 20));
  VEERY_EXPECT_ERROR(kLimit, load_npz(folder.file("a")));
  set_memory_limit(SIZE_MAX);
  EXPECT_EQ(load_npz(folder.file("a")).at("w").size(), 1 << 20);
}

}  // namespace
}  // namespace veery::tensor
