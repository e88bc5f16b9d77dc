# veery_layer(NAME): builds src/NAME as a library that may use every layer defined before it.
set(VEERY_LAYERS "" CACHE INTERNAL "layers made so far, lowest first")

set(VEERY_LIBS_base fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
set(VEERY_LIBS_dtype hwy::hwy)
set(VEERY_LIBS_text PkgConfig::PCRE2 PkgConfig::UTF8PROC)
set(VEERY_LIBS_kernels hwy::hwy)
set(VEERY_LIBS_cli CLI11::CLI11)
# Private: users of the headers do not need these.
set(VEERY_PRIVATE_LIBS_base simdjson::simdjson)
set(VEERY_PRIVATE_LIBS_audio PkgConfig::SNDFILE PkgConfig::SAMPLERATE PkgConfig::MPG123)
set(VEERY_PRIVATE_LIBS_tensor PkgConfig::LIBZIP)
# Headers only: users of the archive do not need these.
set(VEERY_HEADER_LIBS_tensor Eigen3::Eigen)
set(VEERY_PRIVATE_LIBS_engine PkgConfig::ZLIB)
set(VEERY_PRIVATE_LIBS_serve PkgConfig::ZLIB)
if(VEERY_TLS AND OpenSSL_FOUND)
  list(APPEND VEERY_PRIVATE_LIBS_serve OpenSSL::SSL OpenSSL::Crypto)
endif()
if(VEERY_PULL AND CURL_FOUND AND OpenSSL_FOUND)
  set(VEERY_PRIVATE_LIBS_cli OpenSSL::Crypto ${CMAKE_DL_LIBS})  # libcurl is loaded on demand
endif()

# Pointer checks that AddressSanitizer performs on use anyway increase compile time by half, so only
# layers that read untrusted bytes get them. Scope checks triple the compile time of kernels, which
# have thousands of short-lived vectors.
if(VEERY_SANITIZE MATCHES "address.*undefined")
  set(VEERY_SANITIZE_LESS -fno-sanitize=null,alignment,object-size,vptr,pointer-overflow)
endif()
set(VEERY_WATCHED_LAYERS base dtype file audio)
if(VEERY_SANITIZE MATCHES "address")
  set(VEERY_OPTIONS_kernels -fno-sanitize-address-use-after-scope)
endif()
if(VEERY_SANITIZE MATCHES "thread")  # TSan does not support fences, which Asio can avoid
  set(VEERY_OPTIONS_serve -DBOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# Code that runs once per model or command; optimising it would increase compile time by a third.
set(VEERY_COLD_LAYERS graph autodiff model import convert plan tensor capi serve cli)
set(VEERY_COLD_OPTIONS $<IF:$<CONFIG:Debug>,-O0,-O1>)

# Precompiles common headers once for the cold layers and once for targets without options of their
# own. It must not have definitions that some of its users lack, because the compiler would then
# reject it for them.
set(VEERY_COMMON_HEADERS <algorithm> <array> <charconv> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits>
    <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>
    <fmt/format.h>)
file(CONFIGURE OUTPUT generated/precompiled.cc CONTENT "")
foreach(name IN ITEMS veery_precompiled veery_precompiled_cold)
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/generated/precompiled.cc)
  target_link_libraries(${name} PRIVATE fmt::fmt)
  target_precompile_headers(${name} PRIVATE ${VEERY_COMMON_HEADERS})
endforeach()
target_compile_options(veery_precompiled_cold PRIVATE ${VEERY_COLD_OPTIONS} ${VEERY_SANITIZE_LESS})

# Generates commit.h for the sources of `target`. It is checked in every build but only rewritten if
# the commit changed, so that nothing else is recompiled.
function(veery_add_commit target)
  set(folder ${PROJECT_BINARY_DIR}/generated)
  add_custom_target(${target}_commit BYPRODUCTS ${folder}/commit.h VERBATIM
                    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${folder}/commit.h
                            -P ${PROJECT_SOURCE_DIR}/cmake/WriteCommit.cmake)
  add_dependencies(${target} ${target}_commit)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()

# Sets the variable `out` to the path of a source that defines `name`, which `header` declares, as
# the text of `file` in the same folder.
function(veery_embed_text out file header name)
  cmake_path(GET header PARENT_PATH folder)
  set(page ${PROJECT_SOURCE_DIR}/src/${folder}/${file})
  set(made ${PROJECT_BINARY_DIR}/generated/${file}.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake)
  add_custom_command(OUTPUT ${made} DEPENDS ${page} ${script} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DIN=${page} -DOUT=${made} -DHEADER=${header} -DNAME=${name}
                             -P ${script})
  set(${out} ${made} PARENT_SCOPE)
endfunction()

function(veery_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  if(name STREQUAL "serve")
    veery_embed_page(page)
    veery_embed_text(openapi openapi.json serve/page/page.h veery::serve::kOpenApi)
    list(APPEND sources ${page} ${openapi})
  elseif(name STREQUAL "bridge")
    veery_embed_text(bridge bridge.py bridge/bridge.h veery::kBridge)
    list(APPEND sources ${bridge})
  elseif(name STREQUAL "kernels")
    list(APPEND sources ${VEERY_METAL_SOURCES})
  endif()
  set(lower "")
  foreach(layer IN LISTS VEERY_LAYERS)
    list(PREPEND lower veery_${layer})
  endforeach()
  if(name STREQUAL "cli")
    add_executable(veery ${sources})
    target_compile_definitions(veery PRIVATE VEERY_VERSION="${PROJECT_VERSION}")
    veery_add_commit(veery)
    set(target veery)
    if(VEERY_PRIVATE_LIBS_cli)
      set_source_files_properties(src/cli/hub/transfer.cc src/cli/hub/digest.cc PROPERTIES COMPILE_DEFINITIONS VEERY_CURL)
    endif()
  else()
    set(target veery_${name})
    if(sources)
      add_library(${target} STATIC ${sources})
    else()
      add_library(${target} INTERFACE)
    endif()
    set(VEERY_LAYERS ${VEERY_LAYERS} ${name} CACHE INTERNAL "")
  endif()
  if(name STREQUAL "serve" AND VEERY_TLS AND OpenSSL_FOUND)
    set_source_files_properties(src/serve/http/tls.cc src/serve/http/server.cc PROPERTIES COMPILE_DEFINITIONS VEERY_TLS)
  endif()
  if(name STREQUAL "tensor")  # the lowest layer with a public header
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include)
    # Eigen's templates need inlining.
    set_source_files_properties(src/tensor/linalg/solve.cc src/tensor/linalg/orthogonal.cc PROPERTIES
                                COMPILE_OPTIONS $<IF:$<CONFIG:Debug>,-O1,-O2> SKIP_PRECOMPILE_HEADERS ON)
  endif()
  if(name STREQUAL "capi")
    set_source_files_properties(src/capi/status.cc PROPERTIES COMPILE_DEFINITIONS VEERY_VERSION="${PROJECT_VERSION}")
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "INTERFACE_LIBRARY")
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${target} INTERFACE ${lower} ${VEERY_LIBS_${name}})
  else()
    target_compile_options(${target} PRIVATE ${VEERY_OPTIONS_${name}})
    if(NOT name IN_LIST VEERY_WATCHED_LAYERS)
      target_compile_options(${target} PRIVATE ${VEERY_SANITIZE_LESS})
    endif()
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${VEERY_INCLUDES_${name}})
    target_link_libraries(${target} PUBLIC ${VEERY_LIBS_${name}} ${lower} PRIVATE ${VEERY_PRIVATE_LIBS_${name}} ${VEERY_HEADER_LIBS_${name}})
    if(name IN_LIST VEERY_COLD_LAYERS)
      target_compile_options(${target} PRIVATE ${VEERY_COLD_OPTIONS})
    endif()
    if(type STREQUAL "EXECUTABLE" OR VEERY_OPTIONS_${name})  # different options: -fPIE or its own
      target_precompile_headers(${target} PRIVATE ${VEERY_COMMON_HEADERS})
    elseif(name IN_LIST VEERY_COLD_LAYERS)
      target_precompile_headers(${target} REUSE_FROM veery_precompiled_cold)
    else()
      target_precompile_headers(${target} REUSE_FROM veery_precompiled)
    endif()
  endif()
endfunction()

# Sets a variable to the layers up to and including NAME, highest first, for tests and tools.
function(veery_layers_up_to name out)
  set(result "")
  foreach(layer IN LISTS VEERY_LAYERS)
    list(PREPEND result veery_${layer})
    if(layer STREQUAL name)
      break()
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()
