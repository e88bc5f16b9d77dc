# Language level, warnings, sanitizers and system libraries.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers contain file times; ccache only caches them if told to ignore that.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD AND NOT CMAKE_CROSSCOMPILING)  # a cross compiler expects the target linker
  add_link_options(-fuse-ld=mold)
endif()

# Results must not depend on where the compiler sees a multiply next to an addition, so fused
# operations are written explicitly (docs/architecture.md, numbers).
# Designated initialisers intentionally leave other members at their defaults.
add_compile_options(-Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns about its own std::string (GCC bugs 105329, 105651).
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ uses its own deprecated functions; only Clang reports unused lambda captures.
  add_compile_options(-Wno-deprecated-declarations -Wno-shadow)
endif()
if(VEERY_SANITIZE)
  add_compile_options(-fsanitize=${VEERY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${VEERY_SANITIZE})
endif()
# AddressSanitizer keeps a record with addresses for each constant. In position-independent programs
# all records are relocated at start-up, which takes 0.2 s, and tests start the program two thousand
# times.
if(VEERY_SANITIZE MATCHES "address" AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-no-pie)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(HWY REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SNDFILE REQUIRED IMPORTED_TARGET sndfile)
pkg_check_modules(SAMPLERATE REQUIRED IMPORTED_TARGET samplerate)
pkg_check_modules(MPG123 REQUIRED IMPORTED_TARGET libmpg123)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)

# `veery serve` needs OpenSSL for HTTPS, and `veery pull` needs libcurl; otherwise veery is built
# without these features.
option(VEERY_TLS "serve over HTTPS (needs OpenSSL)" ON)
option(VEERY_PULL "download models from hubs (needs libcurl and OpenSSL)" ON)
if(VEERY_TLS OR VEERY_PULL)
  find_package(OpenSSL QUIET)
endif()
if(VEERY_TLS AND NOT OpenSSL_FOUND)
  message(STATUS "no OpenSSL: 'veery serve' will reject --tls-cert")
endif()
if(VEERY_PULL)
  find_package(CURL 7.85 QUIET)
  if(NOT CURL_FOUND OR NOT OpenSSL_FOUND)
    message(STATUS "no libcurl 7.85 with OpenSSL: 'veery pull' will not download models")
  endif()
endif()
