# Checks that HEADER compiles alone, included twice, without warnings, and needs no other library
# except Boost if USES_BOOST.

string(MAKE_C_IDENTIFIER "${HEADER}" name)
get_filename_component(compiler_name "${COMPILER}" NAME)
set(source "${BUILD}/${name}_${compiler_name}.cc")
file(WRITE "${source}" "#include \"${HEADER}\"\n#include \"${HEADER}\"\n")
file(REMOVE "${source}.d")
execute_process(
  COMMAND "${COMPILER}" -std=c++20 "-I${INCLUDE}" -Wall -Wextra -Wpedantic -Wshadow
    -Wnon-virtual-dtor -Wconversion -Wsign-conversion -Wold-style-cast -Werror -fsyntax-only
    -MD -MF "${source}.d" "${source}"
  COMMAND_ERROR_IS_FATAL ANY)
file(READ "${source}.d" included)
if(USES_BOOST)
  string(REGEX REPLACE "/boost/[^ ]*" "" included "${included}")
endif()
if(included MATCHES "/(boost|yaml-cpp|re2|xxhash|CLI)[^ ]*\\.h[^ ]*")
  message(FATAL_ERROR "${HEADER} includes ${CMAKE_MATCH_0}")
endif()
