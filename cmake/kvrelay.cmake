# Build rules shared by all folders: one library per folder, one test program per folder under tests/.

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Contraction would let the compiler fuse multiply and add where the numerics contract does not, differently per ISA.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffp-contract=off)
if(KVRELAY_SANITIZE)
  add_compile_options(-fsanitize=${KVRELAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${KVRELAY_SANITIZE})
endif()
# Everything tells libFuzzer which way it went; only the fuzz targets are linked with it (tests/fuzz).
if(KVRELAY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
find_program(KVRELAY_CCACHE ccache)
if(KVRELAY_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/ccache.sh ${KVRELAY_CCACHE})
  # What ccache needs to recognise a precompiled header.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  else()
    add_compile_options(-fpch-preprocess)
  endif()
endif()
include_directories(${PROJECT_SOURCE_DIR})

# Most of a build is parsing the headers of gRPC, Abseil and GoogleTest. A directory sets KVRELAY_PRECOMPILED to the name of
# the header in cmake/precompiled that all its targets share; what that header sees must be the same in all of them.
add_compile_options(-pthread)
add_compile_definitions(GTEST_HAS_PTHREAD=1)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cc CONTENT "")  # not newer with each configuration
function(kvrelay_precompile name)
  add_library(kvrelay_precompiled_${name} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_precompile_headers(kvrelay_precompiled_${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled/${name}.h)
  target_link_libraries(kvrelay_precompiled_${name} PRIVATE ${ARGN})
endfunction()
function(kvrelay_use_precompiled target)
  target_precompile_headers(${target} REUSE_FROM kvrelay_precompiled_${KVRELAY_PRECOMPILED})
endfunction()

# kvrelay_planted(VARIABLE file...): those of the files that hold planted bugs (common/base/planted_bug.h).
function(kvrelay_planted variable)
  set(planted)
  foreach(source ${ARGN})
    get_filename_component(path ${source} ABSOLUTE)
    set(switches)
    if(EXISTS ${path})  # a generated file has none
      file(STRINGS ${path} switches REGEX "KV_PLANTED\\(")
    endif()
    if(switches)
      list(APPEND planted ${source})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    endif()
  endforeach()
  set(${variable} ${planted} PARENT_SCOPE)
endfunction()

# kvrelay_library(NAME SOURCES file... DEPS target...): the library of one folder. Of its files that hold planted bugs the
# simulator links its own copies, so they are compiled as a unit of their own.
function(kvrelay_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS})
    kvrelay_use_precompiled(${name})
    kvrelay_planted(planted ${ARG_SOURCES})
    if(planted)
      set_source_files_properties(${ARG_SOURCES} PROPERTIES UNITY_GROUP plain)
      set_source_files_properties(${planted} PROPERTIES UNITY_GROUP planted)
      set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# kvrelay_binary(NAME [TOOL] SOURCES file... DEPS target...): a program, placed in <build>/bin. A TOOL, which neither users
# nor tests need, is built when a command asks for it.
function(kvrelay_binary name)
  cmake_parse_arguments(ARG "TOOL" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  kvrelay_use_precompiled(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
                        EXCLUDE_FROM_ALL ${ARG_TOOL})
endfunction()

# kvrelay_test(NAME SOURCES file... DEPS target... [TIMEOUT seconds] [COST seconds] [SHARDS n]): a GoogleTest program, run by
# ctest as one test, or as n that share its cases. COST says roughly how long one takes: ctest starts the longest first,
# so that none is left over at the end.
function(kvrelay_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;COST;SHARDS" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 1)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  kvrelay_use_precompiled(${name})
  set(environment "KVRELAY_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "KVRELAY_BINARY_DIR=${PROJECT_BINARY_DIR}")
  if(ARG_SHARDS)
    foreach(shard RANGE 1 ${ARG_SHARDS})
      math(EXPR index "${shard} - 1")
      add_test(NAME ${name}_${shard} COMMAND ${name})
      set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ENVIRONMENT
        "${environment};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} ENVIRONMENT "${environment}")
  endif()
endfunction()
