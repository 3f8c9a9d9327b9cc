# Unity builds of libraries and tests: one compilation reads several sources, so headers are parsed and
# inline functions are compiled once for all of them. With SLUICE_UNITY_BUILD a build takes less than
# half of the processor time.
#
# Two sources that define the same name, at least one of them in an unnamed namespace, cannot share a
# compilation. Such sources get different groups here, so nobody has to rename anything.

option(SLUICE_UNITY_BUILD "Compile several sources at once: faster as a whole, slower after a change" OFF)
set(SLUICE_UNITY_SIZE 24)  # most sources in one compilation

# Sets `local` to the names that a source defines in unnamed namespaces, and `global` to the others, as
# far as their definitions begin in column 0. More names than there are only make smaller groups.
function(sluice_defined_names source local global)
  file(READ ${source} text)
  string(REGEX REPLACE "[][;\\]" " " text "${text}")  # what has a meaning in lists
  string(REPLACE "\n" ";" lines "${text}")
  list(FILTER lines INCLUDE REGEX "^[A-Za-z}]")
  set(unnamed FALSE)
  foreach(line IN LISTS lines)
    if(line MATCHES "^namespace {")
      set(unnamed TRUE)
    elseif(line MATCHES "^}  // namespace$")
      set(unnamed FALSE)
    elseif(line MATCHES "^(struct|class|enum class|enum|union|concept) ([A-Za-z0-9_]+)"
        OR line MATCHES "^(using|namespace) ([A-Za-z0-9_]+) ="
        OR line MATCHES "(^|[ *&>])([A-Za-z0-9_]+) *[({=]")
      set(name ${CMAKE_MATCH_2})
      if(name MATCHES "^([A-Z0-9_]+|operator)$")  # a macro: TEST
        continue()
      elseif(unnamed)
        list(APPEND names_local ${name})
      else()
        list(APPEND names_global ${name})
      endif()
    endif()
  endforeach()
  set(${local} ${names_local} PARENT_SCOPE)
  set(${global} ${names_global} PARENT_SCOPE)
endfunction()

# Sets `result` to whether the lists `left` and `right` share an element.
function(sluice_lists_meet left right result)
  set(${result} FALSE PARENT_SCOPE)
  foreach(element IN LISTS ${left})
    if(element IN_LIST ${right})
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Divides the C++ sources of a target into groups that compile together.
function(sluice_unity_groups target)
  if(NOT SLUICE_UNITY_BUILD)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(groups 0)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cc$" OR IS_ABSOLUTE ${source})
      continue()
    endif()
    sluice_defined_names(${CMAKE_CURRENT_SOURCE_DIR}/${source} local global)
    set(all ${local} ${global})
    set(group 0)
    while(group LESS groups)
      sluice_lists_meet(all local_${group} clash)
      if(NOT clash)
        sluice_lists_meet(local global_${group} clash)
      endif()
      if(NOT clash AND size_${group} LESS SLUICE_UNITY_SIZE)
        break()
      endif()
      math(EXPR group "${group} + 1")
    endwhile()
    if(group EQUAL groups)
      math(EXPR groups "${groups} + 1")
      set(size_${group} 0)
    endif()
    math(EXPR size_${group} "${size_${group}} + 1")
    list(APPEND local_${group} ${local})
    list(APPEND global_${group} ${global})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()  # no warnings are on
  endif()
  # A local name that is also a file-local name of another source shadows nothing by itself; the builds
  # of single sources check for shadows.
  target_compile_options(${target} PRIVATE -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A type with a member of an unnamed namespace is fine in a source; GCC 12 misreads operator+ of
    # strings (its bug 105651) more often in large compilations.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-restrict)
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
  if(NOT kind STREQUAL libraries)  # not -fPIE, and GoogleTest's definitions: as in the headers
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC ${SLUICE_PROGRAM_OPTIONS})
    if(SLUICE_BUILD_TESTS)
      target_compile_definitions(${target} PRIVATE
        $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_DEFINITIONS>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers_target})
endfunction()
