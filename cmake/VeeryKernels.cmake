# Writes two headers from the list of kernel files: kernels/gpu/kernels/all.h, the includes of all of
# them and VEERY_GPU_KERNELS(X), their rows (kernels/gpu/dialect/kernel_rows.h); and
# kernels/gpu/dialect/families.h, which has one family of descriptors per file.
set(VEERY_INCLUDES_kernels ${PROJECT_BINARY_DIR}/generated/include)
set(folder ${PROJECT_SOURCE_DIR}/src)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/kernels/gpu/kernels/*.h)
list(FILTER headers EXCLUDE REGEX "-inl\\.h$")
set(includes "")
set(rows "")
set(families "")
foreach(header IN LISTS headers)
  cmake_path(GET header STEM name)
  string(TOUPPER ${name} upper)
  string(APPEND includes "#include \"${header}\"\n")
  string(APPEND rows " \\\n  VEERY_GPU_${upper}_KERNELS(X)")
  set(family k)  # attend_split: kAttendSplit
  string(REPLACE "_" ";" words ${name})
  foreach(word IN LISTS words)
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND family ${first}${rest})
  endforeach()
  string(APPEND families "  ${family},\n")
endforeach()
file(CONFIGURE OUTPUT ${VEERY_INCLUDES_kernels}/kernels/gpu/kernels/all.h @ONLY CONTENT
"// all.h: all kernels, written by cmake/VeeryKernels.cmake.
#pragma once
#include \"kernels/gpu/dialect/kernel_rows.h\"
@includes@
#define VEERY_GPU_KERNELS(X)@rows@
")
file(CONFIGURE OUTPUT ${VEERY_INCLUDES_kernels}/kernels/gpu/dialect/families.h @ONLY CONTENT
"// families.h: the kernel files, written by cmake/VeeryKernels.cmake.
#pragma once
namespace veery::gpu {

/// The families of kernels, one per file. kSingle: kernels without variants.
enum class Family : uint8_t {
  kSingle,
@families@};

}  // namespace veery::gpu
")
