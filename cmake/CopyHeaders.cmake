# cmake -DSOURCE=src -DOUT=include/veery -DHEADERS=a/b.h,... -P CopyHeaders.cmake: copies headers
# for users of the library. The copies include each other as "veery/LAYER/x.h", so that they cannot
# be confused with a user's own headers.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${SOURCE}/LAYERS layers REGEX "^[a-z]")
list(JOIN layers "|" layers)
string(REPLACE "," ";" HEADERS "${HEADERS}")
file(REMOVE_RECURSE ${OUT})
foreach(header IN LISTS HEADERS)
  file(READ ${SOURCE}/${header} text)
  string(REGEX REPLACE "(#[ \t]*include[ \t]+\")((${layers})/)" "\\1veery/\\2" text "${text}")
  file(WRITE ${OUT}/${header} "${text}")
endforeach()
