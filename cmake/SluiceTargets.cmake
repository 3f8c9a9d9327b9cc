# One library for each folder, one test program for each folder, with the project's warnings.
#
#   sluice_library(NAME SOURCES files... [PUBLIC libs...] [PRIVATE libs...])
#   sluice_program(NAME SOURCES files... [LIBS libs...])
#   sluice_test(NAME SOURCES files... [LIBS libs...] [LABELS labels...] [TIMEOUT seconds]
#     [SHARDS count])
#   sluice_bench(NAME SOURCES files... [LIBS libs...])

include(SluiceUnity)

set(SLUICE_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wconversion)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # std::stable_sort of libstdc++ 12 calls a deprecated function, which GCC knows to ignore there. Clang's
  # -Wconversion includes -Wsign-conversion; GCC's does not in C++.
  list(APPEND SLUICE_WARNINGS -Wno-deprecated-declarations -Wno-sign-conversion)
endif()
# Optimized builds end at a damaged stack or an overrun buffer, and cannot change the addresses of
# functions of other libraries after the start. Not with sanitizers, which see more.
set(SLUICE_HARDENING "")
set(SLUICE_HARDENED_LINKS "")
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  foreach(option IN ITEMS -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    list(APPEND SLUICE_HARDENING $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:${option}>)
  endforeach()
  set(SLUICE_HARDENED_LINKS -Wl,-z,relro,-z,now)
endif()
# The tests decide millions of times with these. SLUICE_HOT_OPTIONS optimizes them where the rest is not
# optimized, because compiling takes longer than running it.
set(SLUICE_HOT_LIBRARIES base core limiter memory policy quota redis_script)
set(SLUICE_PROGRAM_OPTIONS $<$<CONFIG:Release>:-O1>)  # of tests and their programs, which need not be fast
# A test with one of these labels talks to something outside of its process; the others are hermetic.
set(SLUICE_OUTSIDE_LABELS redis server install)

function(sluice_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE ${SLUICE_WARNINGS} ${SLUICE_HARDENING})
  endif()
endfunction()

# The library sluice::NAME, static, whose users see include/ and nothing else of the tree.
function(sluice_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;PUBLIC;PRIVATE")
  add_library(sluice_${name} STATIC ${ARG_SOURCES})
  add_library(sluice::${name} ALIAS sluice_${name})
  set_target_properties(sluice_${name} PROPERTIES EXPORT_NAME ${name})
  sluice_compile_options(sluice_${name})
  sluice_unity(sluice_${name})
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(sluice_${name} PRIVATE ${SLUICE_LIBRARY_OPTIONS})
    if(SLUICE_HOT_OPTIONS AND name IN_LIST SLUICE_HOT_LIBRARIES)
      target_compile_options(sluice_${name} PRIVATE ${SLUICE_HOT_OPTIONS})
    else()
      sluice_precompiled_headers(sluice_${name} libraries)
    endif()
  endif()
  target_include_directories(sluice_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(sluice_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# A program, at the top of the build tree: build/release/sluice.
function(sluice_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LIBS")
  add_executable(${name} ${ARG_SOURCES})
  sluice_compile_options(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_link_options(${name} PRIVATE ${SLUICE_HARDENED_LINKS})
endfunction()

# A GoogleTest program; it is one ctest, or SHARDS of them that each run a part of its tests. The
# target `concurrency_tests` builds the programs with that label, which also run under ThreadSanitizer.
function(sluice_test name)
  if(NOT SLUICE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT;SHARDS" "SOURCES;LIBS;LABELS")
  add_executable(${name} ${ARG_SOURCES})
  sluice_compile_options(${name})
  sluice_unity(${name})
  target_compile_options(${name} PRIVATE ${SLUICE_PROGRAM_OPTIONS})
  sluice_precompiled_headers(${name} programs)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  if("concurrency" IN_LIST ARG_LABELS)
    add_dependencies(concurrency_tests ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")  # for the emulator
  endif()
  sluice_test_labels(labels gtest ${ARG_LABELS})
  if(NOT ARG_SHARDS)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${labels}")
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}.${shard} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${labels}" COST 100
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# The labels of a test: its own, and `hermetic` unless one of them says otherwise.
function(sluice_test_labels result)
  set(labels ${ARGN})
  foreach(label IN LISTS SLUICE_OUTSIDE_LABELS)
    if(label IN_LIST labels)
      set(${result} "${labels}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} hermetic ${labels} PARENT_SCOPE)
endfunction()

# A Google Benchmark program. The target `benchmarks` builds them all.
function(sluice_bench name)
  if(NOT SLUICE_BUILD_BENCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;LIBS")
  add_executable(${name} ${ARG_SOURCES})
  sluice_compile_options(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} benchmark::benchmark benchmark::benchmark_main)
  add_dependencies(benchmarks ${name})
endfunction()
