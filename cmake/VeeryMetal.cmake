# Embeds the shaders for Apple GPUs: the kernels of kernels/gpu as one source text in the library,
# which Metal compiles when a program starts to use the GPU. On macOS also builds the Metal driver
# and, if Xcode's tools are available, precompiled shaders.
set(VEERY_METAL_TEXT ${PROJECT_BINARY_DIR}/generated/kernels.metal)
set(embedded ${PROJECT_BINARY_DIR}/generated/kernels.metal.cc)
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/gpu/*.h ${PROJECT_SOURCE_DIR}/src/kernels/gpu/*/*.h
     ${PROJECT_SOURCE_DIR}/src/kernels/gpu/*/*/*.h ${PROJECT_SOURCE_DIR}/src/kernels/draw_settings.h)
set(source ${PROJECT_SOURCE_DIR}/src/kernels/gpu/kernels.metal)
add_custom_command(
  OUTPUT ${VEERY_METAL_TEXT} DEPENDS ${source} ${headers} ${VEERY_INCLUDES_kernels}/kernels/gpu/kernels/all.h
                           ${VEERY_INCLUDES_kernels}/kernels/gpu/dialect/families.h
                           ${PROJECT_SOURCE_DIR}/cmake/JoinShader.cmake VERBATIM
  COMMAND ${CMAKE_COMMAND} -DIN=${source} -DFOLDERS=${PROJECT_SOURCE_DIR}/src,${VEERY_INCLUDES_kernels} -DOUT=${VEERY_METAL_TEXT}
          -P ${PROJECT_SOURCE_DIR}/cmake/JoinShader.cmake)
add_custom_command(
  OUTPUT ${embedded} DEPENDS ${VEERY_METAL_TEXT} ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake VERBATIM
  COMMAND ${CMAKE_COMMAND} -DIN=${VEERY_METAL_TEXT} -DOUT=${embedded} -DHEADER=kernels/metal/metal.h
          -DNAME=veery::metal::kShaders -P ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake)
set(VEERY_METAL_SOURCES ${embedded})
if(NOT APPLE)
  return()
endif()

enable_language(OBJCXX)
set(driver ${PROJECT_SOURCE_DIR}/src/kernels/metal/metal_driver.mm)
list(APPEND VEERY_METAL_SOURCES ${driver})
set(VEERY_PRIVATE_LIBS_kernels "-framework Foundation" "-framework Metal")
set_source_files_properties(${driver} PROPERTIES COMPILE_OPTIONS -fobjc-arc SKIP_PRECOMPILE_HEADERS ON)
execute_process(COMMAND xcrun -sdk macosx --find metal RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  return()
endif()
set(VEERY_METAL_LIBRARY ${PROJECT_BINARY_DIR}/generated/kernels.metallib)
add_custom_command(
  OUTPUT ${VEERY_METAL_LIBRARY} DEPENDS ${VEERY_METAL_TEXT} VERBATIM
  COMMAND xcrun -sdk macosx metal -std=metal4.0 -fmetal-math-mode=safe -ffp-contract=off -o ${VEERY_METAL_LIBRARY}
          ${VEERY_METAL_TEXT}
  COMMENT "Compiling shaders for Apple GPUs")
set_source_files_properties(${driver} PROPERTIES COMPILE_DEFINITIONS VEERY_METAL_LIBRARY="${VEERY_METAL_LIBRARY}"
                            OBJECT_DEPENDS ${VEERY_METAL_LIBRARY})
