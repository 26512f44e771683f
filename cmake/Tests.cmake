# tests/ mirrors src/: each folder of *_test.cpp becomes one program test_<folder>, and each test in
# it one entry of ctest. What tests share lives in tests/harness/.

find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include(GoogleTest)

add_test(NAME folder_order
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/check-folder-order.py)
if(NOT TANDEM_SANITIZE)
  add_test(NAME compile_errors
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/compile_errors/run.py
      ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR}/include)
  set_tests_properties(compile_errors PROPERTIES TIMEOUT 120)
  add_test(NAME package COMMAND ${PROJECT_SOURCE_DIR}/tests/package/run.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(package PROPERTIES
    TIMEOUT 120
    RUN_SERIAL ON
    ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER};CMAKE_GENERATOR=${CMAKE_GENERATOR}")
endif()

include(ProgramTests)

set(tests_dir ${PROJECT_SOURCE_DIR}/tests)
add_library(tandem_test_settings INTERFACE)
target_include_directories(tandem_test_settings INTERFACE ${tests_dir})
target_compile_definitions(tandem_test_settings INTERFACE
  TANDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  TANDEM_TEST_DATA_DIR="${tests_dir}/data")
target_link_libraries(tandem_test_settings INTERFACE tandem_internal GTest::gtest)

# Tests run for milliseconds and are compiled by everybody: quick to compile is better than quick.
# What all of them include is compiled once, with the harness.
function(tandem_test_target target)
  tandem_own_target(${target})
  target_link_libraries(${target} PRIVATE tandem_test_settings)
  if(NOT TANDEM_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(target STREQUAL tandem_test_harness)
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <tandem/tandem.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM tandem_test_harness)
  endif()
endfunction()

file(GLOB harness_sources CONFIGURE_DEPENDS ${tests_dir}/harness/*.cpp)
list(FILTER harness_sources EXCLUDE REGEX "_test\\.cpp$")
add_library(tandem_test_harness OBJECT ${harness_sources})
tandem_test_target(tandem_test_harness)

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${tests_dir}/*_test.cpp)
set(folders "")
foreach(source IN LISTS test_sources)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${tests_dir} OUTPUT_VARIABLE relative)
  string(REGEX MATCH "^[^/]+" folder ${relative})
  list(APPEND folders ${folder})
  list(APPEND sources_of_${folder} ${source})
endforeach()
list(REMOVE_DUPLICATES folders)

foreach(folder IN LISTS folders)
  add_executable(test_${folder} ${sources_of_${folder}} $<TARGET_OBJECTS:tandem_test_harness>)
  tandem_test_target(test_${folder})
  target_link_libraries(test_${folder} PRIVATE GTest::gtest_main)
  gtest_discover_tests(test_${folder}
    TEST_PREFIX ${folder}/
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT 120)
endforeach()

# A process of its own, for tests that kill it: see tests/checkpoint/trainer.cpp.
add_executable(checkpoint_trainer ${tests_dir}/checkpoint/trainer.cpp)
tandem_test_target(checkpoint_trainer)
target_compile_definitions(test_checkpoint PRIVATE
  TANDEM_CHECKPOINT_TRAINER="$<TARGET_FILE:checkpoint_trainer>")
add_dependencies(test_checkpoint checkpoint_trainer)

# Compares our ops with TensorFlow's: see tests/interop/run.py and `make interop`.
find_package(nlohmann_json QUIET)
if(nlohmann_json_FOUND)
  file(GLOB interop_sources CONFIGURE_DEPENDS ${tests_dir}/interop/*.cpp)
  add_executable(tandem-interop ${interop_sources})
  tandem_own_target(tandem-interop)
  target_link_libraries(tandem-interop PRIVATE tandem::tandem nlohmann_json::nlohmann_json)
endif()
