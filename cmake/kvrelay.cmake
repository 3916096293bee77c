# Build rules shared by all folders: one library per folder, one test program per folder under tests/.

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
# Contraction would let the compiler fuse multiply and add where the numerics contract does not, differently per ISA.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffp-contract=off)
if(KVRELAY_SANITIZE)
  add_compile_options(-fsanitize=${KVRELAY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${KVRELAY_SANITIZE})
endif()
find_program(KVRELAY_CCACHE ccache)
if(KVRELAY_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KVRELAY_CCACHE})
endif()
include_directories(${PROJECT_SOURCE_DIR})

# kvrelay_library(NAME SOURCES file... DEPS target...): the library of one folder.
function(kvrelay_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# kvrelay_binary(NAME SOURCES file... DEPS target...): a program, placed in <build>/bin.
function(kvrelay_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

# kvrelay_test(NAME SOURCES file... DEPS target... [TIMEOUT seconds]): a GoogleTest program, run by ctest as one test.
function(kvrelay_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT
    "KVRELAY_SOURCE_DIR=${PROJECT_SOURCE_DIR};KVRELAY_BINARY_DIR=${PROJECT_BINARY_DIR}")
endfunction()
