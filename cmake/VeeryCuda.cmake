# Compiles the kernels for NVIDIA GPUs with nvcc to one file that becomes part of the library. The
# driver is looked up at run time, when a program starts to use a GPU, so the result also runs on
# machines without one.
if(NOT VEERY_CUDA)
  return()
endif()
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/cuda.sh --where OUTPUT_VARIABLE fetched_nvcc OUTPUT_STRIP_TRAILING_WHITESPACE)
cmake_path(GET fetched_nvcc PARENT_PATH fetched_nvcc)
find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin ${fetched_nvcc})
if(NOT NVCC)
  message(FATAL_ERROR "VEERY_CUDA: nvcc not found, expected CUDA 13 in CUDA_HOME or PATH (scripts/setup.sh --cuda downloads it)")
endif()
set(VEERY_CUDA_ARCHITECTURES "arch=compute_90a,code=sm_90a;arch=compute_80,code=compute_80" CACHE STRING
    "what the kernels for NVIDIA GPUs are compiled for, as nvcc's -gencode takes it")

set(source ${PROJECT_SOURCE_DIR}/src/kernels/gpu/kernels.cu)
set(image ${PROJECT_BINARY_DIR}/generated/kernels.fatbin)
set(targets "")
foreach(architecture IN LISTS VEERY_CUDA_ARCHITECTURES)
  list(APPEND targets -gencode ${architecture})
endforeach()
# Each operation is rounded separately, as in all other code (VeeryToolchain.cmake). The register
# report of ptxas is kept, because a test rejects kernels that spill registers
# (tools/check_spills.py).
set(VEERY_CUDA_LOG ${image}.log)
add_custom_command(
  OUTPUT ${image} ${VEERY_CUDA_LOG} DEPENDS ${source} DEPFILE ${image}.d VERBATIM
  COMMAND ${CMAKE_COMMAND} -DLOG=${VEERY_CUDA_LOG} -P ${PROJECT_SOURCE_DIR}/cmake/KeepLog.cmake --
          ${NVCC} -std=c++20 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Xptxas -v --threads 0 ${targets}
          -I${PROJECT_SOURCE_DIR}/src -I${VEERY_INCLUDES_kernels} -MD -MF ${image}.d -fatbin -o ${image} ${source}
  COMMENT "Compiling kernels for NVIDIA GPUs")
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/kernels/cuda/image.cc PROPERTIES
                            COMPILE_DEFINITIONS VEERY_CUDA_IMAGE="${image}" OBJECT_DEPENDS ${image}
                            SKIP_PRECOMPILE_HEADERS ON)
