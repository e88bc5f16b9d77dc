# cmake -DIN=... -DOUT=... -DHEADER=... -DNAME=veery::... -P EmbedText.cmake: generates a C++ source
# that defines NAME, which HEADER declares, as the text of a file. The text is split, because some
# compilers limit the length of literals.
cmake_minimum_required(VERSION 3.25)
file(READ ${IN} text)
string(LENGTH "${text}" length)
set(begin 0)
set(literals "")
while(begin LESS length)
  string(SUBSTRING "${text}" ${begin} 8000 part)
  string(APPEND literals "\nR\"veery(${part})veery\"")
  math(EXPR begin "${begin} + 8000")
endwhile()
file(WRITE ${OUT} "#include \"${HEADER}\"\n\nconst std::string_view ${NAME} =${literals};\n")
