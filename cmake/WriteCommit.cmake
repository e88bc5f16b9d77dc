# cmake -DSOURCE=... -DOUT=... -P WriteCommit.cmake: writes VEERY_COMMIT, the commit of the sources,
# with "-dirty" appended if they were modified; "unknown" if SOURCE is not the top of a git work
# tree.
cmake_minimum_required(VERSION 3.25)
set(commit "unknown")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH ${SOURCE} source)
  if(top STREQUAL source)
    execute_process(COMMAND ${GIT} describe --always --dirty --abbrev=12 --exclude=* WORKING_DIRECTORY ${SOURCE}
                    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(found)
      set(commit ${found})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define VEERY_COMMIT \"@commit@\"\n" @ONLY)
