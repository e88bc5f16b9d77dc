# Language level, warnings, sanitizers and the libraries that come from the system.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers hold the times of files; ccache keeps them only where it is told not to mind.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD AND NOT CMAKE_CROSSCOMPILING)  # GCC looks for a linker of the target's
  add_link_options(-fuse-ld=mold)
endif()

# Results must not depend on where the compiler finds a multiply next to an addition: fused operations
# are written out where they are wanted (docs/architecture.md, numbers).
# A designated initialiser leaves the other members at their defaults: that is its point, not an oversight.
add_compile_options(-Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of its own std::string (GCC bugs 105329, 105651).
  add_compile_options(-Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ uses what it has deprecated itself; Clang alone counts names that a lambda does not capture.
  add_compile_options(-Wno-deprecated-declarations -Wno-shadow)
endif()
if(VEERY_SANITIZE)
  add_compile_options(-fsanitize=${VEERY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${VEERY_SANITIZE})
endif()
# AddressSanitizer has a record with addresses for each constant. Where the program may lie anywhere all of them are
# written at its start, which took a fifth of a second, and tests start it two thousand times.
if(VEERY_SANITIZE MATCHES "address" AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-no-pie)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(HWY REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SNDFILE REQUIRED IMPORTED_TARGET sndfile)
pkg_check_modules(SAMPLERATE REQUIRED IMPORTED_TARGET samplerate)
pkg_check_modules(MPG123 REQUIRED IMPORTED_TARGET libmpg123)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)

# What `veery serve` has HTTPS by, and `veery pull` fetches models with; else veery is built without.
option(VEERY_TLS "serve over HTTPS, with OpenSSL" ON)
option(VEERY_PULL "fetch models from hubs, with libcurl and OpenSSL" ON)
if(VEERY_TLS OR VEERY_PULL)
  find_package(OpenSSL QUIET)
endif()
if(VEERY_TLS AND NOT OpenSSL_FOUND)
  message(STATUS "no OpenSSL: 'veery serve' will refuse --tls-cert")
endif()
if(VEERY_PULL)
  find_package(CURL 7.85 QUIET)
  if(NOT CURL_FOUND OR NOT OpenSSL_FOUND)
    message(STATUS "no libcurl 7.85 with OpenSSL: 'veery pull' will refuse to fetch models")
  endif()
endif()
