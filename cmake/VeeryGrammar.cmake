# Finds xgrammar, which implements constrained decoding, as built by scripts/xgrammar.sh; otherwise
# veery is built without it.
set(VEERY_XGRAMMAR "auto" CACHE STRING "folder of xgrammar's library; auto: where scripts/xgrammar.sh puts it; OFF: without")
set(xgrammar_folder ${VEERY_XGRAMMAR})
if(xgrammar_folder STREQUAL "auto")
  set(xgrammar_folder "")
  if(NOT CMAKE_CROSSCOMPILING)
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/xgrammar.sh --where OUTPUT_VARIABLE xgrammar_folder
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
set(xgrammar_archive ${xgrammar_folder}/lib/libxgrammar.a)
if(xgrammar_folder AND EXISTS ${xgrammar_archive})
  add_library(xgrammar::xgrammar STATIC IMPORTED)
  set_target_properties(xgrammar::xgrammar PROPERTIES IMPORTED_LOCATION ${xgrammar_archive}
                        INTERFACE_INCLUDE_DIRECTORIES ${xgrammar_folder}/include)
  list(APPEND VEERY_PRIVATE_LIBS_text xgrammar::xgrammar)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/text/grammar/grammar.cc PROPERTIES COMPILE_DEFINITIONS
                              VEERY_XGRAMMAR)
  # The objects of the library, for the single archive that is installed.
  set(XGRAMMAR_OBJECTS ${PROJECT_BINARY_DIR}/generated/xgrammar)
  file(MAKE_DIRECTORY ${XGRAMMAR_OBJECTS})
  execute_process(COMMAND ${CMAKE_AR} x ${xgrammar_archive} WORKING_DIRECTORY ${XGRAMMAR_OBJECTS})
elseif(NOT VEERY_XGRAMMAR STREQUAL "OFF")
  message(STATUS "no xgrammar: constrained decoding is not available (scripts/xgrammar.sh builds it)")
endif()
