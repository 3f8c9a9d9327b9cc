# Configures, builds and runs the project SOURCE in BUILD, against PREFIX (installed) or SLUICE (a
# source tree), and checks what its program `consumer` is linked with.

file(REMOVE_RECURSE "${BUILD}")
execute_process(
  COMMAND ${CMAKE_COMMAND} -S "${SOURCE}" -B "${BUILD}" -G "${GENERATOR}"
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
    -DCMAKE_PREFIX_PATH=${PREFIX} -DSLUICE=${SLUICE} -DSLUICE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build "${BUILD}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${BUILD}/consumer" COMMAND_ERROR_IS_FATAL ANY)

if(NOT EXISTS "${SOURCE}/uses_rules")
  execute_process(COMMAND ldd "${BUILD}/consumer" OUTPUT_VARIABLE libraries
    COMMAND_ERROR_IS_FATAL ANY)
  if(libraries MATCHES "boost|yaml|re2|xxhash")
    message(FATAL_ERROR "a user of sluice::sluice is linked with ${CMAKE_MATCH_0}:\n${libraries}")
  endif()
endif()

# As a subdirectory, Sluice adds no files to the installation of the outer project.
if(SLUICE)
  execute_process(COMMAND ${CMAKE_COMMAND} --install "${BUILD}" --prefix "${BUILD}/prefix"
    COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB_RECURSE installed "${BUILD}/prefix/*")
  if(installed)
    message(FATAL_ERROR "the outer project installs: ${installed}")
  endif()
endif()
