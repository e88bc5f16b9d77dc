// cublas_lt.h: the part of cuBLASLt's interface that veery uses (cuBLAS documentation, "Using the
// cuBLASLt API"), declared under own names. The library is loaded at run time, on first use; no
// header of it is needed to build veery.
#pragma once
#include "kernels/cuda/driver.h"

namespace veery::cuda {

namespace lt {

using Status = int;  ///< cublasStatus_t
struct Handle_;
struct Product_;
struct Layout_;
struct Preference_;
using Handle = Handle_*;
using Product = Product_*;        ///< cublasLtMatmulDesc_t
using Layout = Layout_*;          ///< cublasLtMatrixLayout_t
using Preference = Preference_*;  ///< cublasLtMatmulPreference_t

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

/// X(member of CublasLt, symbol in the library, parameters)
#define VEERY_CUBLAS_LT_FUNCTIONS(X)                                                            \
  X(create, cublasLtCreate, (lt::Handle*))                                                      \
  X(destroy, cublasLtDestroy, (lt::Handle))                                                     \
  X(product_create, cublasLtMatmulDescCreate, (lt::Product*, int, int))                         \
  X(product_set, cublasLtMatmulDescSetAttribute, (lt::Product, int, const void*, size_t))       \
  X(product_destroy, cublasLtMatmulDescDestroy, (lt::Product))                                  \
  X(layout_create, cublasLtMatrixLayoutCreate, (lt::Layout*, int, uint64_t, uint64_t, int64_t)) \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, (lt::Layout))                                  \
  X(preference_create, cublasLtMatmulPreferenceCreate, (lt::Preference*))                       \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                       \
    (lt::Preference, int, const void*, size_t))                                                 \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, (lt::Preference))                      \
  X(find, cublasLtMatmulAlgoGetHeuristic,                                                       \
    (lt::Handle, lt::Product, lt::Layout a, lt::Layout b, lt::Layout c, lt::Layout d,           \
     lt::Preference, int wanted, lt::Found* found, int* count))                                 \
  X(multiply, cublasLtMatmul,                                                                   \
    (lt::Handle, lt::Product, const void* alpha, const void* a, lt::Layout, const void* b,      \
     lt::Layout, const void* beta, const void* c, lt::Layout, void* d, lt::Layout,              \
     const lt::Algorithm*, void* workspace, size_t bytes, Stream))

struct CublasLt {
#define VEERY_CUBLAS_LT_MEMBER(name, symbol, parameters) lt::Status(*name) parameters = nullptr;
  VEERY_CUBLAS_LT_FUNCTIONS(VEERY_CUBLAS_LT_MEMBER)
#undef VEERY_CUBLAS_LT_MEMBER

  /// Throws kIo with `what` and the status unless the status is 0.
  void check(lt::Status status, const char* what) const;
};

/// Returns the library, loaded through the dynamic linker, or nullptr with the reason in `why` if
/// it is missing or too old.
const CublasLt* find_cublas_lt(std::string& why);

}  // namespace veery::cuda
