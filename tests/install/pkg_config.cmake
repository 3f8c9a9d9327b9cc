# Builds and runs SOURCE with the flags of pkg-config for the sluice in PREFIX.

find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
file(GLOB_RECURSE description "${PREFIX}/*/sluice.pc")
get_filename_component(directory "${description}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${directory}")
execute_process(COMMAND "${pkg_config}" --cflags --libs sluice
  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
file(MAKE_DIRECTORY "${BUILD}")
execute_process(COMMAND "${COMPILER}" -std=c++20 -o "${BUILD}/consumer" "${SOURCE}" ${flags}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${BUILD}/consumer" COMMAND_ERROR_IS_FATAL ANY)
