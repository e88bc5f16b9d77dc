// cublas_lt.h: NVIDIA's library of matrix products, found when it is first asked for: what of its
// interface is used (cuBLAS documentation, "Using the cuBLASLt API"), under names of ours. Nothing
// of it is needed to build this.
#pragma once
#include "kernels/cuda/driver.h"

namespace veery::cuda {

namespace lt {

using Status = int;  ///< cublasStatus_t
struct Handle_;
struct Product_;
struct Layout_;
struct Wishes_;
using Handle = Handle_*;
using Product = Product_*;  ///< cublasLtMatmulDesc_t
using Layout = Layout_*;    ///< cublasLtMatrixLayout_t
using Wishes = Wishes_*;    ///< cublasLtMatmulPreference_t

struct Algorithm {  ///< cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct Found {  ///< cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace;
  Status status;
  float waves;
  int reserved[4];
};

inline constexpr int kSumsF32 = 68;         ///< cublasComputeType_t
inline constexpr int kF32 = 0, kBF16 = 14;  ///< cudaDataType
inline constexpr int kTransposeA = 3;       ///< cublasLtMatmulDescAttributes_t
inline constexpr int32_t kTransposed = 1;   ///< cublasOperation_t
inline constexpr int kMostWorkspace = 1;    ///< cublasLtMatmulPreferenceAttributes_t

}  // namespace lt

/// X(name of ours, name in the library, parameters)
#define VEERY_CUBLAS_LT_FUNCTIONS(X)                                                              \
  X(create, cublasLtCreate, (lt::Handle*))                                                        \
  X(destroy, cublasLtDestroy, (lt::Handle))                                                       \
  X(product_create, cublasLtMatmulDescCreate, (lt::Product*, int, int))                           \
  X(product_set, cublasLtMatmulDescSetAttribute, (lt::Product, int, const void*, size_t))         \
  X(product_destroy, cublasLtMatmulDescDestroy, (lt::Product))                                    \
  X(layout_create, cublasLtMatrixLayoutCreate, (lt::Layout*, int, uint64_t, uint64_t, int64_t))   \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, (lt::Layout))                                    \
  X(wishes_create, cublasLtMatmulPreferenceCreate, (lt::Wishes*))                                 \
  X(wishes_set, cublasLtMatmulPreferenceSetAttribute, (lt::Wishes, int, const void*, size_t))     \
  X(wishes_destroy, cublasLtMatmulPreferenceDestroy, (lt::Wishes))                                \
  X(find, cublasLtMatmulAlgoGetHeuristic,                                                         \
    (lt::Handle, lt::Product, lt::Layout a, lt::Layout b, lt::Layout c, lt::Layout d, lt::Wishes, \
     int wanted, lt::Found* found, int* count))                                                   \
  X(multiply, cublasLtMatmul,                                                                     \
    (lt::Handle, lt::Product, const void* alpha, const void* a, lt::Layout, const void* b,        \
     lt::Layout, const void* beta, const void* c, lt::Layout, void* d, lt::Layout,                \
     const lt::Algorithm*, void* workspace, size_t bytes, Stream))

struct CublasLt {
#define VEERY_CUBLAS_LT_MEMBER(name, symbol, parameters) lt::Status(*name) parameters = nullptr;
  VEERY_CUBLAS_LT_FUNCTIONS(VEERY_CUBLAS_LT_MEMBER)
#undef VEERY_CUBLAS_LT_MEMBER

  /// Throws kIo, naming `what` and the library's status.
  void check(lt::Status status, const char* what) const;
};

/// Where the dynamic linker looks; nullptr where there is none that can be used; `why` then says
/// what was looked for, or what it has not.
const CublasLt* find_cublas_lt(std::string& why);

}  // namespace veery::cuda
