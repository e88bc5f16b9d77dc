# Writes kernels/gpu/kernels/all.h: the includes of all kernel files, and VEERY_GPU_KERNELS(X), the
# rows of all of them (kernels/gpu/dialect/kernel_rows.h).
set(VEERY_INCLUDES_kernels ${PROJECT_BINARY_DIR}/generated/include)
set(folder ${PROJECT_SOURCE_DIR}/src)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${folder} ${folder}/kernels/gpu/kernels/*.h)
list(FILTER headers EXCLUDE REGEX "-inl\\.h$")
set(includes "")
set(rows "")
foreach(header IN LISTS headers)
  cmake_path(GET header STEM name)
  string(TOUPPER ${name} name)
  string(APPEND includes "#include \"${header}\"\n")
  string(APPEND rows " \\\n  VEERY_GPU_${name}_KERNELS(X)")
endforeach()
file(CONFIGURE OUTPUT ${VEERY_INCLUDES_kernels}/kernels/gpu/kernels/all.h @ONLY CONTENT
"// all.h: all kernels, written by cmake/VeeryKernels.cmake.
#pragma once
#include \"kernels/gpu/dialect/kernel_rows.h\"
@includes@
#define VEERY_GPU_KERNELS(X)@rows@
")
