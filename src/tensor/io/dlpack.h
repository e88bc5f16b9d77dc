// dlpack.h: the structures of DLPack's ABI, major version 1, written after its specification
// (https://dmlc.github.io/dlpack/latest/c_api.html). Debian 12 has version 0.6, which lacks the
// versioned tensor.
#ifndef DLPACK_DLPACK_H_  // the guard of DLPack's own header, whose declarations are these
#define DLPACK_DLPACK_H_

#include <cstdint>

enum DLDeviceType : int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
};

enum DLDataTypeCode : uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
};

struct DLPackVersion {
  uint32_t major, minor;
};
struct DLDevice {
  DLDeviceType device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;  ///< DLDataTypeCode, and codes of later versions
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  ///< in elements; null: contiguous in row-major order
  uint64_t byte_offset;
};

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  ///< may be null
  uint64_t flags;
  DLTensor dl_tensor;
};

#endif  // DLPACK_DLPACK_H_
