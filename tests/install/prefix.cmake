# Installs BUILD to PREFIX and checks that it contains the public headers and no unexpected file.

file(REMOVE_RECURSE "${PREFIX}")
execute_process(COMMAND ${CMAKE_COMMAND} --install "${BUILD}" --prefix "${PREFIX}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

file(GLOB_RECURSE wanted RELATIVE "${HEADERS}" "${HEADERS}/*.h")
file(GLOB_RECURSE present RELATIVE "${PREFIX}/include" "${PREFIX}/include/*")
if(NOT wanted STREQUAL present)
  message(FATAL_ERROR "headers installed: ${present}\nexpected: ${wanted}")
endif()

file(GLOB_RECURSE others RELATIVE "${PREFIX}" "${PREFIX}/*")
list(FILTER others EXCLUDE REGEX
  "^include/|^lib[^ ]*/libsluice_[a-z_]+\\.a$|/cmake/sluice/|/pkgconfig/sluice\\.pc$|^bin/sluice$|/doc/sluice/LICENSE$|^lib[^ ]*/sluice/sluice\\.so$")
if(others)
  message(FATAL_ERROR "installed, and not expected: ${others}")
endif()
if(EXISTS "${PREFIX}/bin/sluice")
  execute_process(COMMAND "${PREFIX}/bin/sluice" --help OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()

# The module for Redis: servers must find its two functions, and no other name of it.
if(MODULE)
  file(GLOB module "${PREFIX}/lib*/sluice/sluice.so" "${PREFIX}/lib/*/sluice/sluice.so")
  if(NOT module)
    message(FATAL_ERROR "not installed: lib/sluice/sluice.so")
  endif()
  execute_process(COMMAND "${NM}" --dynamic --defined-only --format=posix "${module}"
    OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  if(NOT names MATCHES "^RedisModule_OnLoad T [^\n]*\nRedisModule_OnUnload T [^\n]*\n$")
    message(FATAL_ERROR "exported by the module: ${names}\nexpected: RedisModule_OnLoad, RedisModule_OnUnload")
  endif()
endif()
