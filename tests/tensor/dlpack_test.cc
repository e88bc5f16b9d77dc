// Exchange of tensors by DLPack.
#include "tensor/io/dlpack.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "tensor/errors.h"
#include "tensor/reference.h"
#include "veery/tensor_io.hpp"

namespace veery::tensor {
namespace {

// The layout that DLPack's specification gives.
static_assert(sizeof(DLManagedTensorVersioned) == 80 && sizeof(DLTensor) == 48);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
              offsetof(DLManagedTensorVersioned, deleter) == 16 &&
              offsetof(DLManagedTensorVersioned, flags) == 24 &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 &&
              offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24 &&
              offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8);

/// A tensor of another library: 24 floats 0 to 23 as [2, 3], with its deleter counted.
struct Foreign {
  std::array<float, 24> values;
  std::array<int64_t, 2> shape{2, 3}, strides{6, 2};
  int deleted = 0;
  DLManagedTensorVersioned managed = {};

  Foreign() {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    managed.version = {1, 3};  // minor versions are compatible
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deleted;
    };
    managed.dl_tensor = {values.data(), {kDLCPU, 0},    2, {kDLFloat, 32, 1},
                         shape.data(),  strides.data(), 4};
  }
};

TEST(Dlpack, ForeignMemoryIsReadInPlace) {
  Foreign foreign;
  {
    const Tensor x = from_dlpack(&foreign.managed);
    EXPECT_TRUE(x.is_evaluated());
    EXPECT_EQ(x.data(), foreign.values.data() + 1);
    EXPECT_EQ(x.byte_strides(), (std::vector<int64_t>{24, 8}));
    EXPECT_EQ(x.values<float>(), (std::vector<float>{1, 3, 5, 7, 9, 11}));
    const Tensor view = transpose(x);
    EXPECT_EQ((view * 2).values<float>(), (std::vector<float>{2, 14, 6, 18, 10, 22}));
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(Dlpack, StridesMayBeAbsentOrNegative) {
  Foreign foreign;
  foreign.managed.dl_tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(&foreign.managed).values<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  foreign.strides = {-6, 1};
  foreign.managed.dl_tensor.strides = foreign.strides.data();
  foreign.managed.dl_tensor.byte_offset = 40;
  EXPECT_EQ(from_dlpack(&foreign.managed).values<float>(),
            (std::vector<float>{10, 11, 12, 4, 5, 6}));
  foreign.managed.deleter = nullptr;
  EXPECT_EQ(sum(from_dlpack(&foreign.managed)).item<float>(), 48);
  EXPECT_EQ(foreign.deleted, 2);
}

// A tensor that was changed is refused, and its deleter not called.
template <typename Change>
void expect_refused(ErrorKind kind, const Change& change, const std::string& message) {
  Foreign foreign;
  change(foreign, foreign.managed.dl_tensor);
  test::expect_error(
      kind, [&] { from_dlpack(&foreign.managed); }, message);
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(Dlpack, OtherVersionsDevicesAndTypesAreRefused) {
  const auto refused = [](const auto& change, const std::string& message) {
    expect_refused(ErrorKind::kUnsupported, change, message);
  };
  refused([](Foreign& f, DLTensor&) { f.managed.version.major = 2; }, "version 2.3");
  refused([](Foreign&, DLTensor& t) { t.device = {kDLCUDA, 1}; }, "cuda:1");
  refused([](Foreign&, DLTensor& t) { t.device = {kDLMetal, 0}; }, "metal:0");
  refused([](Foreign&, DLTensor& t) { t.device = {DLDeviceType{99}, 0}; }, "unknown");
  refused([](Foreign&, DLTensor& t) { t.dtype = {kDLUInt, 16, 1}; }, "u16");
  refused([](Foreign&, DLTensor& t) { t.dtype = {kDLComplex, 64, 1}; }, "complex64");
  refused([](Foreign&, DLTensor& t) { t.dtype = {kDLFloat, 32, 4}; }, "4 lanes");
  refused([](Foreign&, DLTensor& t) { t.dtype = {17, 4, 1}; }, "code 17");
  refused([](Foreign&, DLTensor& t) { t.ndim = 9; }, "9 dimensions");
}

TEST(Dlpack, WrongShapesAndAddressesAreRefused) {
  const auto refused = [](const auto& change, const std::string& message) {
    expect_refused(ErrorKind::kInput, change, message);
  };
  refused([](Foreign& f, DLTensor&) { f.shape[1] = -3; }, "[2, -3]");
  refused([](Foreign&, DLTensor& t) { t.shape = nullptr; }, "without a shape");
  refused([](Foreign&, DLTensor& t) { t.data = nullptr; }, "without data");
  refused([](Foreign&, DLTensor& t) { t.byte_offset = 2; }, "aligned");
  VEERY_EXPECT_ERROR(kInput, from_dlpack(nullptr));
}

TEST(Dlpack, ViewsAreExportedInPlace) {
  const size_t before = memory_use().active;
  DLManagedTensorVersioned* managed = nullptr;
  const void* data = nullptr;
  {
    const Tensor x = reshape(arange(0, 12, 1, Dtype::kF32), {3, 4});
    const Tensor view = slice(transpose(x), {{3, {}, -2}, {1, 3, 1}});
    managed = to_dlpack(view);
    data = view.data();
  }
  EXPECT_EQ(managed->version.major, 1U);
  EXPECT_EQ(managed->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  const DLTensor& t = managed->dl_tensor;
  EXPECT_EQ(t.data, data);
  EXPECT_EQ(t.byte_offset, 0U);
  EXPECT_EQ(t.device.device_type, kDLCPU);
  ASSERT_EQ(t.ndim, 2);
  EXPECT_EQ((std::array{t.shape[0], t.shape[1]}), (std::array<int64_t, 2>{2, 2}));
  EXPECT_EQ((std::array{t.strides[0], t.strides[1]}), (std::array<int64_t, 2>{-2, 4}));
  EXPECT_EQ(static_cast<const float*>(t.data)[4], 11.0F);
  {
    const Tensor back = from_dlpack(managed);
    EXPECT_EQ(back.values<float>(), (std::vector<float>{7, 11, 5, 9}));
  }
  EXPECT_EQ(memory_use().active, before);
}

TEST(Dlpack, EveryTypeHasItsCode) {
  const std::pair<Dtype, std::array<int, 2>> kCodes[] = {
      {Dtype::kBool, {6, 8}}, {Dtype::kU8, {1, 8}},    {Dtype::kI8, {0, 8}},
      {Dtype::kI32, {0, 32}}, {Dtype::kU32, {1, 32}},  {Dtype::kI64, {0, 64}},
      {Dtype::kF16, {2, 16}}, {Dtype::kBF16, {4, 16}}, {Dtype::kF32, {2, 32}},
      {Dtype::kF64, {2, 64}}};
  for (const auto& [type, code] : kCodes) {
    const Tensor x = test::numbers({3, 2}, type, 1, 0, 50);
    DLManagedTensorVersioned* managed = to_dlpack(x);
    const DLDataType& dtype = managed->dl_tensor.dtype;
    EXPECT_EQ((std::array{int{dtype.code}, int{dtype.bits}}), code) << name(type);
    EXPECT_EQ(dtype.lanes, 1);
    const Tensor y = from_dlpack(managed);
    EXPECT_EQ(y.dtype(), type);
    EXPECT_EQ(y.values<double>(), x.values<double>());
  }
}

TEST(Dlpack, ScalarsAndEmptyTensors) {
  const Tensor scalar = from_dlpack(to_dlpack(full({}, 2.5)));
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.item<float>(), 2.5F);
  EXPECT_EQ(from_dlpack(to_dlpack(zeros({0, 3}))).shape(), (Shape{0, 3}));
}

TEST(Dlpack, ACopyMayBeWritten) {
  const Tensor x = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  DLManagedTensorVersioned* managed = to_dlpack(transpose(x), true);
  EXPECT_EQ(managed->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  auto* values = static_cast<float*>(managed->dl_tensor.data);
  EXPECT_EQ(values[1], 3.0F);
  values[1] = 9;
  EXPECT_EQ(x.values<float>(), (std::vector<float>{1, 2, 3, 4}));
  managed->deleter(managed);
}

}  // namespace
}  // namespace veery::tensor
