# Checks that HEADER compiles alone, included twice, without warnings, and needs no other library
# except Boost if USES_BOOST.

string(MAKE_C_IDENTIFIER "${HEADER}" name)
get_filename_component(compiler_name "${COMPILER}" NAME)
set(source "${BUILD}/${name}_${compiler_name}.cc")
file(WRITE "${source}" "#include \"${HEADER}\"\n#include \"${HEADER}\"\n")
execute_process(
  COMMAND "${COMPILER}" -std=c++20 "-I${INCLUDE}" -Wall -Wextra -Wpedantic -Wshadow
    -Wnon-virtual-dtor -Wconversion -Wsign-conversion -Wold-style-cast -Werror -fsyntax-only
    "${source}"
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${COMPILER}" -std=c++20 "-I${INCLUDE}" -M "${source}"
  OUTPUT_VARIABLE included COMMAND_ERROR_IS_FATAL ANY)
if(USES_BOOST)
  string(REGEX REPLACE "/boost/[^ ]*" "" included "${included}")
endif()
if(included MATCHES "/(boost|yaml-cpp|re2|xxhash|CLI|spdlog)[^ ]*\\.h[^ ]*")
  message(FATAL_ERROR "${HEADER} includes ${CMAKE_MATCH_0}")
endif()
