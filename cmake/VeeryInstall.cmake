# Defines the files that `cmake --install` installs (docs/install.md): the program with man pages and
# completions; the library as one archive, headers, a CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(VEERY_GENERATED ${PROJECT_BINARY_DIR}/generated)

# Libraries that layers link: how the CMake package finds each, and its pkg-config package ("-":
# none).
set(VEERY_DEPENDENCIES
  "fmt::fmt|find_dependency(fmt)|fmt"
  "nlohmann_json::nlohmann_json|find_dependency(nlohmann_json)|nlohmann_json"
  "Threads::Threads|find_dependency(Threads)|-"
  "simdjson::simdjson|find_dependency(simdjson)|simdjson"
  "hwy::hwy|find_dependency(HWY)|libhwy"
  "PkgConfig::PCRE2|pkg_check_modules(PCRE2 REQUIRED QUIET IMPORTED_TARGET libpcre2-8)|libpcre2-8"
  "PkgConfig::UTF8PROC|pkg_check_modules(UTF8PROC REQUIRED QUIET IMPORTED_TARGET libutf8proc)|libutf8proc"
  "PkgConfig::SNDFILE|pkg_check_modules(SNDFILE REQUIRED QUIET IMPORTED_TARGET sndfile)|sndfile"
  "PkgConfig::SAMPLERATE|pkg_check_modules(SAMPLERATE REQUIRED QUIET IMPORTED_TARGET samplerate)|samplerate"
  "PkgConfig::MPG123|pkg_check_modules(MPG123 REQUIRED QUIET IMPORTED_TARGET libmpg123)|libmpg123"
  "OpenSSL::SSL|find_dependency(OpenSSL)|libssl"
  "OpenSSL::Crypto|find_dependency(OpenSSL)|libcrypto"
  "PkgConfig::ZLIB|pkg_check_modules(ZLIB REQUIRED QUIET IMPORTED_TARGET zlib)|zlib"
  "PkgConfig::LIBZIP|pkg_check_modules(LIBZIP REQUIRED QUIET IMPORTED_TARGET libzip)|libzip")

# All layers in one archive, so that users need not care about link order.
set(objects "")
set(libraries "")
foreach(layer IN LISTS VEERY_LAYERS)
  get_target_property(type veery_${layer} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND objects $<TARGET_OBJECTS:veery_${layer}>)
  endif()
  list(APPEND libraries ${VEERY_LIBS_${layer}} ${VEERY_PRIVATE_LIBS_${layer}})
endforeach()
list(REMOVE_DUPLICATES libraries)
# Libraries that no package manager provides become part of the archive.
if(TARGET xgrammar::xgrammar)
  list(REMOVE_ITEM libraries xgrammar::xgrammar)
  file(GLOB found ${XGRAMMAR_OBJECTS}/*.o)
  list(APPEND objects ${found})
endif()
add_library(veery_library STATIC ${objects})
add_library(veery::veery ALIAS veery_library)
set_target_properties(veery_library PROPERTIES OUTPUT_NAME veery EXPORT_NAME veery LINKER_LANGUAGE CXX)
target_compile_features(veery_library INTERFACE cxx_std_20)
target_link_libraries(veery_library INTERFACE ${libraries})
target_include_directories(veery_library INTERFACE $<BUILD_INTERFACE:${VEERY_GENERATED}/include>
                           $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)

# The C interface as a shared library, which exports only its own functions.
veery_layers_up_to(capi capi_layers)
add_library(veery_shared SHARED $<TARGET_OBJECTS:veery_capi>)
add_library(veery::shared ALIAS veery_shared)
# Before 1.0, any minor version may break the ABI.
set_target_properties(veery_shared PROPERTIES OUTPUT_NAME veery EXPORT_NAME shared LINKER_LANGUAGE CXX
                      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/veery.map)
target_link_libraries(veery_shared PRIVATE ${capi_layers})
target_link_options(veery_shared PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/veery.map -Wl,-z,defs)
target_include_directories(veery_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)

set(VEERY_FIND "")
set(VEERY_REQUIRES "")
foreach(library IN LISTS libraries)
  set(row ${VEERY_DEPENDENCIES})
  list(FILTER row INCLUDE REGEX "^${library}\\|")
  if(NOT row)
    message(FATAL_ERROR "${library} is linked by a layer, but missing in VEERY_DEPENDENCIES")
  endif()
  string(REPLACE "|" ";" row "${row}")
  list(GET row 1 find)
  list(GET row 2 package)
  string(APPEND VEERY_FIND "${find}\n")
  if(NOT package STREQUAL "-")
    list(APPEND VEERY_REQUIRES ${package})
  endif()
endforeach()
list(JOIN VEERY_REQUIRES ", " VEERY_REQUIRES)

# Headers, except those of single kernels and those compiled once per instruction set.
set(headers "")
foreach(layer IN LISTS VEERY_LAYERS)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/${layer}/*.h)
  list(APPEND headers ${found})
endforeach()
list(FILTER headers EXCLUDE REGEX "^capi/|^kernels/((cpu|reference|gpu|cuda|metal)/|find_backend)|-inl\\.h$|/lane_targets\\.h$")
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/src/ OUTPUT_VARIABLE header_files)
list(JOIN headers "," header_list)
add_custom_command(OUTPUT ${VEERY_GENERATED}/headers.stamp VERBATIM
                   COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/src -DOUT=${VEERY_GENERATED}/include/veery
                           -DHEADERS=${header_list} -P ${PROJECT_SOURCE_DIR}/cmake/CopyHeaders.cmake
                   COMMAND ${CMAKE_COMMAND} -E touch ${VEERY_GENERATED}/headers.stamp
                   DEPENDS ${header_files} ${PROJECT_SOURCE_DIR}/cmake/CopyHeaders.cmake)
add_custom_target(veery_headers ALL DEPENDS ${VEERY_GENERATED}/headers.stamp)
add_dependencies(veery_library veery_headers)

# The program's man pages and completions.
set(pages ${PROJECT_SOURCE_DIR}/tools/man_pages.py)
find_program(PYTHON3 python3 REQUIRED)
set(run ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:veery>)
add_custom_command(OUTPUT ${VEERY_GENERATED}/manual.stamp VERBATIM
                   COMMAND ${PYTHON3} ${pages} ${VEERY_GENERATED}/man ${run}
                   COMMAND ${CMAKE_COMMAND} -E touch ${VEERY_GENERATED}/manual.stamp
                   DEPENDS veery ${pages})
set(shells "")
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${VEERY_GENERATED}/completion/veery.${shell} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -E make_directory ${VEERY_GENERATED}/completion
                     COMMAND ${run} completion ${shell} > ${VEERY_GENERATED}/completion/veery.${shell}
                     DEPENDS veery)
  list(APPEND shells ${VEERY_GENERATED}/completion/veery.${shell})
endforeach()
add_custom_target(veery_manual ALL DEPENDS ${VEERY_GENERATED}/manual.stamp ${shells})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/veery)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/veeryConfig.cmake.in ${VEERY_GENERATED}/veeryConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
# Before 1.0, any minor version may break the API.
write_basic_package_version_file(${VEERY_GENERATED}/veeryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# The prefix relative to the file, so that `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH VEERY_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/veery.pc.in ${VEERY_GENERATED}/veery.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/veery-c.pc.in ${VEERY_GENERATED}/veery-c.pc @ONLY)

# Builds everything that is installed: `cmake --build build/release --target installed`, without
# tests.
add_custom_target(installed DEPENDS veery veery_library veery_shared veery_headers veery_manual)
install(CODE "
  foreach(built \"$<TARGET_FILE:veery>\" \"$<TARGET_FILE:veery_library>\" \"$<TARGET_FILE:veery_shared>\"
          \"${VEERY_GENERATED}/headers.stamp\" \"${VEERY_GENERATED}/manual.stamp\")
    if(NOT EXISTS \"\${built}\")
      message(FATAL_ERROR \"\${built} is not built yet, so nothing is installed: run\n  cmake --build ${PROJECT_BINARY_DIR} --target installed\")
    endif()
  endforeach()")

install(TARGETS veery RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS veery_library veery_shared EXPORT veeryTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT veeryTargets NAMESPACE veery:: DESTINATION ${package_folder})
install(FILES ${VEERY_GENERATED}/veeryConfig.cmake ${VEERY_GENERATED}/veeryConfigVersion.cmake
        DESTINATION ${package_folder})
install(FILES ${VEERY_GENERATED}/veery.pc ${VEERY_GENERATED}/veery-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/veery DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${VEERY_GENERATED}/include/veery DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${VEERY_GENERATED}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${VEERY_GENERATED}/completion/veery.bash RENAME veery
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${VEERY_GENERATED}/completion/veery.zsh RENAME _veery
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${VEERY_GENERATED}/completion/veery.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN *.md)
