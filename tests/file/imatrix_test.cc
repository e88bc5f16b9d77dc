// Tests of importance matrices: both formats yield the same means; damaged files are rejected.
#include "file/gguf/imatrix.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "file/gguf/gguf.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

namespace veery {
namespace {

class OldFile {
 public:
  template <typename T>
  OldFile& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  OldFile& string(std::string_view value) {
    number(static_cast<int32_t>(value.size()));
    text_.append(value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string two_entries() {
  OldFile file;
  file.number<int32_t>(2);
  file.string("blk.0.ffn_up.weight").number<int32_t>(4).number<int32_t>(3);
  file.number(4.0F).number(8.0F).number(2.0F);
  file.string("output.weight").number<int32_t>(0).number<int32_t>(1).number(5.0F);
  file.number<int32_t>(7).string("words.txt");
  return file.text();
}

ImportanceMatrix parse(const std::string& text) {
  return parse_old_imatrix(std::as_bytes(std::span(text)), "old.dat");
}

TEST(Imatrix, OldFormatYieldsMeans) {
  const ImportanceMatrix matrix = parse(two_entries());
  EXPECT_EQ(matrix.values.at("blk.0.ffn_up.weight"), (std::vector<float>{1, 2, 0.5F}));
  EXPECT_EQ(matrix.values.at("output.weight"), std::vector<float>{5});
  EXPECT_EQ(matrix.chunks, 7);
  EXPECT_EQ(matrix.datasets, std::vector<std::string>{"words.txt"});
}

TEST(Imatrix, EveryPrefixOfTheOldFormatIsValidOrRejected) {
  const std::string text = two_entries();
  for (size_t size = 0; size < text.size(); ++size) {
    try {
      EXPECT_EQ(parse(text.substr(0, size)).values.size(), 2U) << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat) << error.what();
    }
  }
}

TEST(Imatrix, RejectsCountsBeyondTheFileAndInvalidValues) {
  for (const int32_t count : {-1, 0, INT32_MAX}) {
    OldFile file;
    EXPECT_THROW(parse(file.number(count).text()), Error) << count;
  }
  OldFile file;
  file.number<int32_t>(1).string("x").number<int32_t>(1).number<int32_t>(1).number(-1.0F);
  EXPECT_THROW(parse(file.text()), Error);
}

class GgufForm {
 public:
  GgufForm& add(const std::string& name, std::vector<int64_t> shape, std::vector<float> values) {
    const auto& kept =
        values_.emplace_back(std::make_shared<std::vector<float>>(std::move(values)));
    tensors_.push_back({.name = name,
                        .dtype = DType::kF32,
                        .shape = std::move(shape),
                        .data = std::as_bytes(std::span(*kept))});
    return *this;
  }
  ImportanceMatrix read() const {
    test::TemporaryFolder folder;
    Metadata metadata;
    metadata.set("general.type", std::string("imatrix"));
    metadata.set("imatrix.chunk_count", int64_t{3});
    metadata.set("imatrix.datasets", std::vector<std::string_view>{"a.txt"});
    test::write_gguf(folder.file("i.gguf"), metadata, tensors_);
    return read_imatrix(folder.file("i.gguf"));
  }

 private:
  std::vector<std::shared_ptr<std::vector<float>>> values_;
  std::vector<TensorView> tensors_;
};

TEST(Imatrix, GgufFormatDividesEachExpertByItsOwnCount) {
  GgufForm form;
  form.add("up.in_sum2", {2, 3}, {2, 4, 6, 9, 9, 9}).add("up.counts", {2, 1}, {2, 0});
  const ImportanceMatrix matrix = form.read();
  EXPECT_EQ(matrix.values.at("up"), (std::vector<float>{1, 2, 3, 1, 1, 1}));
  EXPECT_EQ(matrix.chunks, 3);
  EXPECT_EQ(matrix.datasets, std::vector<std::string>{"a.txt"});
}

TEST(Imatrix, RejectsGgufWithoutCountsOrSums) {
  EXPECT_THROW(GgufForm().add("up.in_sum2", {2}, {2, 4}).read(), Error);
  EXPECT_THROW(GgufForm().add("up.weight", {2}, {2, 4}).read(), Error);
  EXPECT_THROW(GgufForm().add("a.in_sum2", {3}, {2, 4, 1}).add("a.counts", {2}, {1, 1}).read(),
               Error);
}

}  // namespace
}  // namespace veery
