// Tests of reading and writing valid GGUF files, and of unreadable and unwritable paths.
#include "file/gguf/gguf.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "gguf_bytes.h"
#include "support/file_size_limit.h"
#include "support/write_model.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

// A temporary folder, removed on destruction.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "veery_gguf_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

 private:
  fs::path path_;
};

template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kBug, "nothing was thrown");
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Gguf, EveryTypeOfValueIsRead) {
  const test::GgufBytes bytes = test::valid_gguf();
  const ModelFile model = parse_gguf(bytes.span(), "memory");
  const Metadata& m = model.metadata;
  EXPECT_EQ(m.integer("a.u8"), 200);
  EXPECT_EQ(m.integer("a.i8"), -100);
  EXPECT_EQ(m.integer("a.u16"), 60000);
  EXPECT_EQ(m.integer("a.i16"), -30000);
  EXPECT_EQ(m.integer("a.u32"), 4000000000);
  EXPECT_EQ(m.integer("a.i32"), -2000000000);
  EXPECT_EQ(m.integer("a.i64"), -5000000000);
  EXPECT_EQ(m.number("a.f32"), 0.25);
  EXPECT_EQ(m.number("a.f64"), 0.1);
  EXPECT_EQ(m.number("a.u8"), 200.0);
  EXPECT_EQ(m.boolean("a.bool"), true);
  EXPECT_EQ(m.text("a.text"), "hello");
  EXPECT_EQ(std::get<uint64_t>(*m.find("a.u64")), ~uint64_t{0});
  EXPECT_EQ(*m.texts("b.texts"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(*m.integers("b.ints"), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ(*m.numbers("b.floats"), std::vector<double>{1.5});
  EXPECT_EQ(m.integer("none"), std::nullopt);
  EXPECT_EQ(m.texts("none"), nullptr);
}

TEST(Gguf, TensorsAreRowMajorViewsIntoTheFile) {
  const test::GgufBytes bytes = test::valid_gguf();
  const ModelFile model = parse_gguf(bytes.span(), "memory");
  ASSERT_EQ(model.tensors.size(), 2U);
  const TensorView& first = model.at("t.first");
  EXPECT_EQ(first.dtype, DType::kQ8_0);
  EXPECT_EQ(first.shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(first.data.size(), 68U);
  EXPECT_EQ(first.data[5], std::byte{5});
  const TensorView& second = model.at("t.second");
  EXPECT_EQ(second.shape, (std::vector<int64_t>{5, 1, 3}));
  EXPECT_EQ(second.elements(), 15);
  EXPECT_EQ(second.data.data(), first.data.data() + 96);
  EXPECT_EQ(model.find("t.third"), nullptr);
  expect_contains(error_of([&] { model.at("t.third"); }).what(), "memory: has no tensor 't.third'");
}

TEST(Gguf, WrongTypeOfAKeyNamesFoundAndExpected) {
  const test::GgufBytes bytes = test::valid_gguf();
  const ModelFile model = parse_gguf(bytes.span(), "memory");
  const Metadata& m = model.metadata;
  EXPECT_STREQ(error_of([&] { m.integer("a.text"); }).what(),
               "metadata 'a.text': found a string, expected an integer");
  EXPECT_STREQ(error_of([&] { m.texts("b.ints"); }).what(),
               "metadata 'b.ints': found an array of integers, expected an array of strings");
  EXPECT_EQ(error_of([&] { m.boolean("a.u8"); }).kind(), ErrorKind::kFormat);
  EXPECT_EQ(error_of([&] { m.number("a.bool"); }).kind(), ErrorKind::kFormat);
  expect_contains(error_of([&] { m.integer("a.u64"); }).what(), "less than 2^63");
}

TEST(Gguf, ReadsVersion2AndOtherAlignments) {
  for (const uint32_t alignment : {1U, 8U, 64U, 4096U}) {
    test::GgufBytes b;
    b.header(2, 1, 2).key("general.alignment", gguf::ValueType::kUint32).number(alignment);
    b.tensor("a", {1}, 0, 0).tensor("b", {1}, 0, std::max(4U, alignment)).pad(alignment);
    const size_t start = b.text().size();
    b.zeros(std::max(4U, alignment)).number(2.5F);
    const ModelFile model = parse_gguf(b.span(), "memory");
    EXPECT_EQ(model.at("a").data.data(), b.span().data() + start);
    float value = 0;
    decode(DType::kF32, model.at("b").data, {&value, 1});
    EXPECT_EQ(value, 2.5F);
  }
}

TEST(Gguf, WithoutTensorsNoDataIsNeeded) {
  test::GgufBytes b;
  b.header(0, 1).key("k", gguf::ValueType::kBool).number(uint8_t{0});
  EXPECT_EQ(parse_gguf(b.span(), "memory").metadata.boolean("k"), false);
}

// Metadata and tensors with every kind of value at its limits.
struct Sample {
  Metadata metadata;
  std::vector<std::vector<std::byte>> data;
  std::vector<TensorView> tensors;
};

Sample make_sample() {
  Sample s;
  s.metadata.set("general.architecture", std::string("test"));
  s.metadata.set("bool", true);
  s.metadata.set("float", 1e-5);
  s.metadata.set("double", 0.25);
  s.metadata.set("huge", std::numeric_limits<double>::max());
  s.metadata.set("nothing", std::string());
  s.metadata.set("u64", ~uint64_t{0});
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, int64_t{1} << 40,
                              std::numeric_limits<int64_t>::min()})
    s.metadata.set(fmt::format("int.{}", value), value);
  s.metadata.set("ints", std::vector<int64_t>{-1, 2, 2147483647});
  s.metadata.set("unsigned", std::vector<int64_t>{0, 4294967295});
  s.metadata.set("wide", std::vector<int64_t>{-1, 4294967295});
  s.metadata.set("floats", std::vector<double>{0.5, -2});
  s.metadata.set("doubles", std::vector<double>{0.5, 0.1});
  s.metadata.set("texts", std::vector<std::string_view>{"", "a", "\xE2\x96\x81the", {"\0b", 2}});
  s.metadata.set("empty", std::vector<std::string_view>{});
  Random random(11);
  const auto add = [&](const std::string& name, DType type, std::vector<int64_t> shape) {
    TensorView view{name, type, std::move(shape), {}};
    s.data.emplace_back(byte_size(type, view.elements()));
    for (std::byte& b : s.data.back()) b = static_cast<std::byte>(random.next());
    s.tensors.push_back(view);
  };
  add("z.first", DType::kF32, {3});
  add("a.second", DType::kQ4_K, {2, 256});
  add("third", DType::kQ4_0, {3, 1, 2, 64});
  add("fourth", DType::kI8, {1});
  for (size_t i = 0; i < s.data.size(); ++i) s.tensors[i].data = s.data[i];
  return s;
}

TEST(GgufWrite, RoundTripsMetadataAndTensors) {
  const Folder folder;
  for (const int64_t alignment : {0, 8, 512}) {
    Sample s = make_sample();
    if (alignment != 0) s.metadata.set("general.alignment", alignment);
    const std::string path = folder.file("x.gguf");
    test::write_gguf(path, s.metadata, s.tensors);
    const ModelFile model = open_gguf(path);
    EXPECT_TRUE(model.metadata.all() == s.metadata.all());
    ASSERT_EQ(model.tensors.size(), s.tensors.size());
    for (size_t i = 0; i < s.tensors.size(); ++i) {
      EXPECT_EQ(model.tensors[i].name, s.tensors[i].name);
      EXPECT_EQ(model.tensors[i].dtype, s.tensors[i].dtype);
      EXPECT_EQ(model.tensors[i].shape, s.tensors[i].shape);
      EXPECT_TRUE(std::ranges::equal(model.tensors[i].data, s.tensors[i].data));
    }
    model.release(model.tensors[1]);
    EXPECT_TRUE(std::ranges::equal(model.tensors[1].data, s.tensors[1].data));
    EXPECT_EQ(folder.entries(), 1U);
  }
}

TEST(GgufWrite, OverwritingAMappedFileKeepsTheOldViews) {
  const Folder folder;
  const std::string path = folder.file("x.gguf");
  const Sample s = make_sample();
  test::write_gguf(path, s.metadata, s.tensors);
  const ModelFile before = open_gguf(path);
  test::write_gguf(path, before.metadata, std::span(before.tensors).first(1));
  EXPECT_TRUE(std::ranges::equal(before.tensors[3].data, s.tensors[3].data));
  EXPECT_EQ(open_gguf(path).tensors.size(), 1U);
}

TEST(GgufWrite, RejectsTensorsThatTheFormatCannotRepresent) {
  const Folder folder;
  const auto refused = [&](auto change) {
    Sample s = make_sample();
    change(s);
    const Error error =
        error_of([&] { test::write_gguf(folder.file("x.gguf"), s.metadata, s.tensors); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    EXPECT_EQ(folder.entries(), 0U);
    return std::string(error.what());
  };
  expect_contains(refused([](Sample& s) { s.tensors[1].shape = {512, 1}; }), "multiple of 256");
  expect_contains(refused([](Sample& s) { s.tensors[0].shape = {}; }), "0 dimensions");
  expect_contains(refused([](Sample& s) { s.tensors[0].shape = {3, 0}; }), "a dimension 0");
  expect_contains(refused([](Sample& s) { s.tensors[3].name = "third"; }), "twice");
  expect_contains(refused([](Sample& s) { s.tensors[3].name = ""; }), "length 0");
  expect_contains(refused([](Sample& s) { s.metadata.set("", true); }), "key of length 0");
}

TEST(GgufWrite, FullDiskThrowsAndLeavesNoFile) {
  const Folder folder;
  const Sample s = make_sample();
  test::write_gguf(folder.file("old.gguf"), s.metadata, s.tensors);
  const auto size = fs::file_size(folder.file("old.gguf"));
  for (const rlim_t room : {rlim_t{0}, rlim_t{10}, rlim_t{size / 2}, rlim_t{size - 1}}) {
    Error error(ErrorKind::kBug, "nothing was thrown");
    {
      const test::FileSizeLimit limit(room);
      error = error_of([&] { test::write_gguf(folder.file("old.gguf"), s.metadata, s.tensors); });
    }
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    expect_contains(error.what(), fmt::format("old.gguf: cannot be written after {} bytes", room));
    EXPECT_EQ(folder.entries(), 1U);
    EXPECT_EQ(open_gguf(folder.file("old.gguf")).tensors.size(), s.tensors.size());
  }
}

TEST(GgufWrite, UnwritablePathsThrow) {
  const Folder folder;
  const Sample s = make_sample();
  const auto error = [&](const std::string& path) {
    return error_of([&] { test::write_gguf(path, s.metadata, s.tensors); });
  };
  EXPECT_EQ(error(folder.file("none/x.gguf")).kind(), ErrorKind::kIo);
  fs::create_directory(folder.file("folder"));
  expect_contains(error(folder.file("folder")).what(),
                  "is a folder, expected a regular file or a new name");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(GgufOpen, UnreadablePathsThrow) {
  const Folder folder;
  EXPECT_EQ(error_of([&] { open_gguf(folder.file("none")); }).kind(), ErrorKind::kNotFound);
  const Error directory = error_of([&] { open_gguf(folder.file("")); });
  EXPECT_EQ(directory.kind(), ErrorKind::kIo);
  expect_contains(directory.what(), "is a folder, expected a file");
  const std::string empty = folder.file("empty.gguf");
  std::ofstream(empty).close();
  const Error error = error_of([&] { open_gguf(empty); });
  EXPECT_EQ(error.kind(), ErrorKind::kFormat);
  expect_contains(error.what(), "empty.gguf: the file is empty");
}

// Drops root privileges temporarily, which would allow reading any file.
class AsNobody {
 public:
  AsNobody() : root_(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  AsNobody(const AsNobody&) = delete;
  ~AsNobody() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool root_;
};

TEST(GgufOpen, FileWithoutReadPermissionThrows) {
  const Folder folder;
  ::chmod(folder.file("").c_str(), 0755);
  const std::string path = folder.file("secret.gguf");
  std::ofstream(path) << test::valid_gguf().text();
  ::chmod(path.c_str(), 0200);
  const AsNobody nobody;
  if (::geteuid() == 0) GTEST_SKIP() << "root cannot become another user here";
  const Error error = error_of([&] { open_gguf(path); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  expect_contains(error.what(), "secret.gguf: cannot be opened: Permission denied");
}

// Offset of the last byte of each scale (f16, bf16, f32 or f64) in a block, from the format
// descriptions.
struct ScaleEnds {
  DType type;
  std::vector<int> ends;
};
const ScaleEnds kScaleEnds[] = {
    {DType::kF32, {3}},     {DType::kF16, {1}},     {DType::kBF16, {1}},
    {DType::kF64, {7}},     {DType::kI32, {}},      {DType::kQ4_0, {1}},
    {DType::kQ4_1, {1, 3}}, {DType::kQ5_0, {1}},    {DType::kQ5_1, {1, 3}},
    {DType::kQ8_0, {1}},    {DType::kQ8_1, {1, 3}}, {DType::kQ2_K, {81, 83}},
    {DType::kQ3_K, {109}},  {DType::kQ4_K, {1, 3}}, {DType::kQ5_K, {1, 3}},
    {DType::kQ6_K, {209}},  {DType::kQ8_K, {3}},    {DType::kIQ4_NL, {1}},
    {DType::kIQ4_XS, {1}},  {DType::kMXFP4, {}},    {DType::kNVFP4, {}},
    {DType::kIQ2_XXS, {1}}, {DType::kIQ2_XS, {1}},  {DType::kIQ2_S, {1}},
    {DType::kIQ3_XXS, {1}}, {DType::kIQ3_S, {1}},   {DType::kIQ1_S, {1}},
    {DType::kTQ1_0, {53}},  {DType::kTQ2_0, {65}}};

TEST(FiniteScales, ErrorsNameTheBlockAndOnlyScalesAreChecked) {
  for (const ScaleEnds& places : kScaleEnds) {
    const DTypeInfo& type = info(places.type);
    for (int at = 0; at < type.bytes; ++at) {
      std::vector<std::byte> bytes(static_cast<size_t>(type.bytes) * 3);
      const auto place = static_cast<size_t>(type.bytes + at);
      bytes[place] = std::byte{0x7F};  // all exponent bits except the lowest ones
      if (place > 0) bytes[place - 1] = std::byte{0xF0};
      const TensorView view{"w", type.type, {3, type.block}, bytes};
      const bool bad = std::ranges::find(places.ends, at) != places.ends.end();
      const Error error = error_of([&] { check_finite_scales(view); });
      EXPECT_EQ(error.kind(), bad ? ErrorKind::kFormat : ErrorKind::kBug)
          << type.name << " byte " << at << ": " << error.what();
      if (!bad) continue;
      expect_contains(error.what(), "tensor 'w'");
      expect_contains(error.what(), type.quantized ? "scale of block 1 " : "element 1 ");
    }
  }
}

// ggml's block_q2_0: d as f16, then 64 codes of 2 bits, lowest first; d * (code - 1).
TEST(Gguf, Q2IsReadAsGroupsWithTheSameValues) {
  test::GgufBytes bytes;
  bytes.header(1, 0).tensor("w", {128, 2}, 42, 0).pad();
  for (int block = 0; block < 4; ++block) {
    bytes.number(f32_to_f16(block % 2 == 0 ? 0.37F : -1.5F));
    for (int i = 0; i < 16; ++i) bytes.number(static_cast<uint8_t>(27 + 37 * i + block));
  }
  const ModelFile file = parse_gguf(bytes.span(), "q2");
  const TensorView& w = file.at("w");
  std::vector<std::byte> buffer;
  std::vector<float> found(256);
  decode(w.dtype, w.read(buffer), found);
  for (int block = 0; block < 4; ++block) {
    const float d = f16_to_f32(f32_to_f16(block % 2 == 0 ? 0.37F : -1.5F));
    for (int i = 0; i < 64; ++i) {
      const int byte = (27 + 37 * (i / 4) + block) & 255;
      const auto code = static_cast<float>((byte >> (i % 4 * 2) & 3) - 1);
      EXPECT_EQ(found[static_cast<size_t>(64 * block + i)], d * code) << block << " " << i;
    }
  }
  test::GgufBytes odd;
  odd.header(1, 0).tensor("w", {96}, 42, 0).pad().zeros(64);
  EXPECT_THROW(parse_gguf(odd.span(), "q2"), Error);
}

}  // namespace
}  // namespace veery
