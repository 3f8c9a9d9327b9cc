# Unity builds of libraries and tests: one compilation reads several sources, so headers are parsed and
# inline functions are compiled once for all of them. With SLUICE_UNITY_BUILD a build takes less than
# half of the processor time. Sources of a target cannot define the same name in unnamed namespaces then.

option(SLUICE_UNITY_BUILD "Compile several sources at once: faster as a whole, slower after a change" OFF)

# Makes the sources of a target compile together.
function(sluice_unity target)
  if(NOT SLUICE_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()  # no warnings are on
  endif()
  # A local name that is also a file-local name of another source shadows nothing by itself; the builds
  # of single sources check for shadows.
  target_compile_options(${target} PRIVATE -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A type with a member of an unnamed namespace is fine in a source; GCC 12 misreads operator+ of
    # strings (its bug 105651) more often in large compilations.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-restrict -Wno-stringop-overflow
      -Wno-stringop-overread -Wno-array-bounds)
  endif()
endfunction()

# Makes a target use precompiled headers of the standard library; for tests and other programs, of
# GoogleTest too. KIND is `libraries` or `programs`: each has options of its own, which headers and users
# must share, and compiles its headers once.
function(sluice_precompiled_headers target kind)
  if(NOT SLUICE_UNITY_BUILD OR NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  set(headers_target sluice_headers_of_${kind})
  if(NOT TARGET ${headers_target})
    set(headers <algorithm> <array> <atomic> <charconv> <chrono> <functional> <map> <memory> <optional>
      <span> <string> <utility> <variant> <vector>)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${headers_target}.cc CONTENT "")
    add_library(${headers_target} OBJECT ${PROJECT_BINARY_DIR}/${headers_target}.cc)
    sluice_compile_options(${headers_target})
    if(kind STREQUAL libraries)
      target_compile_options(${headers_target} PRIVATE ${SLUICE_LIBRARY_OPTIONS})
    elseif(SLUICE_BUILD_TESTS)
      list(APPEND headers <gtest/gtest.h>)
      target_compile_options(${headers_target} PRIVATE ${SLUICE_PROGRAM_OPTIONS})
      target_link_libraries(${headers_target} PRIVATE GTest::gtest)
    endif()
    target_precompile_headers(${headers_target} PRIVATE ${headers})
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # for ccache
      target_compile_options(${headers_target} PRIVATE -Xclang -fno-pch-timestamp)
    endif()
  endif()
  if(kind STREQUAL programs)  # not -fPIE, and GoogleTest's options: as in the headers
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC ${SLUICE_PROGRAM_OPTIONS})
    if(SLUICE_BUILD_TESTS)
      target_compile_options(${target} PRIVATE
        $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers_target})
endfunction()
