# The kernels for NVIDIA GPUs: nvcc makes one file of them, which becomes part of the library. The driver is looked for
# when a program starts to use a GPU, so what is built with them runs without one too.
if(NOT VEERY_CUDA)
  return()
endif()
find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT NVCC)
  message(FATAL_ERROR "VEERY_CUDA: nvcc is not found (CUDA 13: CUDA_HOME, or on the PATH)")
endif()
set(VEERY_CUDA_ARCHITECTURES "arch=compute_90a,code=sm_90a;arch=compute_80,code=compute_80" CACHE STRING
    "what the kernels for NVIDIA GPUs are compiled for, as nvcc's -gencode takes it")

set(source ${PROJECT_SOURCE_DIR}/src/kernels/gpu/kernels.cu)
set(image ${PROJECT_BINARY_DIR}/generated/kernels.fatbin)
set(targets "")
foreach(architecture IN LISTS VEERY_CUDA_ARCHITECTURES)
  list(APPEND targets -gencode ${architecture})
endforeach()
# Each operation is rounded by itself, as everywhere (VeeryToolchain.cmake).
add_custom_command(
  OUTPUT ${image} DEPENDS ${source} DEPFILE ${image}.d VERBATIM
  COMMAND ${NVCC} -std=c++20 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true --threads 0 ${targets}
          -I${PROJECT_SOURCE_DIR}/src -MD -MF ${image}.d -fatbin -o ${image} ${source}
  COMMENT "Compiling kernels for NVIDIA GPUs")
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/kernels/cuda/image.cc PROPERTIES
                            COMPILE_DEFINITIONS VEERY_CUDA_IMAGE="${image}" OBJECT_DEPENDS ${image}
                            SKIP_PRECOMPILE_HEADERS ON)
