# tests/ mirrors src/: each folder of *_test.cpp becomes one program test_<folder>, and each test in
# it one entry of ctest. What tests share lives in tests/harness/, files that they read in
# tests/fixtures/. `make test` runs them side by side on a machine that may be busy; `make soak` runs
# them with TANDEM_SOAK set (tests/harness/soak.h), and those with the label `soak` besides.

find_package(GTest REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include(GoogleTest)

add_test(NAME folder_order
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/check-folder-order.py)
add_test(NAME type_names
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/check-type-names.py)
add_test(NAME docs COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/scripts/check-docs.py)
if(NOT TANDEM_SANITIZE)
  add_test(NAME compile_errors
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/compile_errors/run.py
      ${CMAKE_CXX_COMPILER} ${PROJECT_SOURCE_DIR}/include)
endif()
if(TANDEM_INSTALL AND NOT TANDEM_SANITIZE)
  set(package_tests ${PROJECT_SOURCE_DIR}/tests/package)
  add_test(NAME package COMMAND ${package_tests}/run.sh ${PROJECT_BINARY_DIR})
  add_test(NAME package_static COMMAND ${package_tests}/static.sh)
  set_tests_properties(package_static PROPERTIES LABELS soak)
  set_tests_properties(package package_static PROPERTIES
    ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER};CMAKE_GENERATOR=${CMAKE_GENERATOR}")
endif()

if(TANDEM_PYTHON AND NOT TANDEM_SANITIZE)
  add_test(NAME python COMMAND ${Python_EXECUTABLE} -X faulthandler -m pytest -q -p no:cacheprovider
    --timeout=700 --timeout-method=thread ${PROJECT_SOURCE_DIR}/python/tests)
  set_tests_properties(python PROPERTIES
    ENVIRONMENT "PYTHONPATH=${PROJECT_SOURCE_DIR}/python:${PROJECT_BINARY_DIR}/python")
  add_test(NAME wheel COMMAND ${PROJECT_SOURCE_DIR}/scripts/make-wheel.sh ${PROJECT_BINARY_DIR}/wheel)
  set_tests_properties(wheel PROPERTIES LABELS soak)
endif()

include(ProgramTests)

set(tests_dir ${PROJECT_SOURCE_DIR}/tests)
add_library(tandem_test_settings INTERFACE)
target_include_directories(tandem_test_settings INTERFACE ${tests_dir})
target_compile_definitions(tandem_test_settings INTERFACE
  TANDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  TANDEM_BINARY_DIR="${PROJECT_BINARY_DIR}"
  TANDEM_FIXTURES_DIR="${tests_dir}/fixtures")
target_link_libraries(tandem_test_settings INTERFACE tandem_internal GTest::gtest)

# Libraries with the names of NVIDIA's, which run on the CPU what NVRTC compiles. Tests load them from
# their folder (tests/harness/cuda.h). They have no sonames, so nobody else in the process finds them:
# NVRTC asks libcuda.so.1 for what only the real one has.
set(doubles_dir ${PROJECT_BINARY_DIR}/doubles/cuda)
file(GLOB cuda_double_sources CONFIGURE_DEPENDS ${tests_dir}/doubles/cuda/*.cpp)
add_library(tandem_double_cuda SHARED ${cuda_double_sources})
tandem_own_target(tandem_double_cuda)
set_target_properties(tandem_double_cuda PROPERTIES
  OUTPUT_NAME cuda
  SUFFIX .so.1
  NO_SONAME ON
  LIBRARY_OUTPUT_DIRECTORY ${doubles_dir})
target_include_directories(tandem_double_cuda PRIVATE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
# One library is all of them.
foreach(name cublas.so.13 cublasLt.so.13 cudnn.so.9 nccl.so.2)
  add_custom_command(TARGET tandem_double_cuda POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E create_symlink libcuda.so.1 ${doubles_dir}/lib${name})
endforeach()
target_compile_options(tandem_double_cuda PRIVATE -ffp-contract=off)
target_link_libraries(tandem_double_cuda PRIVATE fmt::fmt Threads::Threads)

# Tests run for milliseconds and are compiled by everybody: quick to compile is better than quick.
# What all of them include is compiled once, with the harness.
function(tandem_test_target target)
  tandem_own_target(${target})
  target_link_libraries(${target} PRIVATE tandem_test_settings)
  add_dependencies(${target} tandem_double_cuda)
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
  set(target tandem_test_${folder})
  add_executable(${target} ${sources_of_${folder}} $<TARGET_OBJECTS:tandem_test_harness>)
  tandem_test_target(${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME test_${folder})
  target_link_libraries(${target} PRIVATE GTest::gtest_main)
  set(test_properties "")
  if(folder STREQUAL "cluster" AND "thread" IN_LIST TANDEM_SANITIZE)
    set(test_properties PROPERTIES ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${tests_dir}/cluster/thread_sanitizer.supp")
  endif()
  gtest_discover_tests(${target}
    TEST_PREFIX ${folder}/
    TEST_FILTER -Capabilities/CudaTexts.*
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    ${test_properties})
endforeach()
target_compile_definitions(tandem_test_kernels PRIVATE "${TANDEM_VECTOR_DEFINITION}")

foreach(folder IN ITEMS collective cluster distribute)
  add_dependencies(tandem_test_${folder} tandem_plugins)
endforeach()
# What a plugin has beside its library's calls is tested here by itself.
target_sources(tandem_test_collective PRIVATE
  ${PROJECT_SOURCE_DIR}/src/collective/ucx/failed_assertion.cpp
  ${PROJECT_SOURCE_DIR}/src/collective/ucx/neighbour_memory.cpp)

# The rows of the ops' tests on doubles of CUDA devices, in processes of their own: see tests/harness/op_check.cpp.
set(shards 4)
foreach(shard RANGE 1 ${shards})
  math(EXPR index "${shard} - 1")
  add_test(NAME cuda_rows_${shard} COMMAND tandem_test_ops --gtest_brief=1)
  set_tests_properties(cuda_rows_${shard} PROPERTIES ENVIRONMENT
    "TANDEM_TEST_ROWS=cuda;GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
endforeach()

# The kernels' texts that all tests leave are compiled for NVIDIA's devices behind them: the lowest cost comes last.
foreach(capability IN ITEMS 75 80 90 100 120)
  add_test(NAME cuda_texts_${capability}
    COMMAND tandem_test_kernels --gtest_filter=Capabilities/CudaTexts.*/${capability})
  set_tests_properties(cuda_texts_${capability} PROPERTIES COST -1 SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endforeach()

# Where CUDA's headers are, our own declarations are held against them.
find_path(TANDEM_CUDA_HEADERS nvrtc.h
  HINTS $ENV{CUDA_PATH}/include $ENV{CUDA_HOME}/include
  PATHS /usr/local/cuda/include)
if(TANDEM_CUDA_HEADERS)
  set_source_files_properties(${tests_dir}/device/cuda/declarations_test.cpp PROPERTIES
    INCLUDE_DIRECTORIES ${TANDEM_CUDA_HEADERS})
endif()

# A process of its own, for tests that kill it: see tests/checkpoint/trainer.cpp.
add_executable(tandem_checkpoint_trainer ${tests_dir}/checkpoint/trainer.cpp)
tandem_test_target(tandem_checkpoint_trainer)
set_target_properties(tandem_checkpoint_trainer PROPERTIES OUTPUT_NAME checkpoint_trainer)
target_compile_definitions(tandem_test_checkpoint PRIVATE
  TANDEM_CHECKPOINT_TRAINER="$<TARGET_FILE:tandem_checkpoint_trainer>")
add_dependencies(tandem_test_checkpoint tandem_checkpoint_trainer)

# The same, one of several that work together: see tests/cluster/cluster_member.cpp and cluster_trainer.cpp.
foreach(name IN ITEMS member trainer)
  add_executable(tandem_cluster_${name} ${tests_dir}/cluster/cluster_${name}.cpp)
  tandem_test_target(tandem_cluster_${name})
  set_target_properties(tandem_cluster_${name} PROPERTIES OUTPUT_NAME cluster_${name})
  add_dependencies(tandem_test_cluster tandem_cluster_${name})
endforeach()
target_compile_definitions(tandem_test_cluster PRIVATE
  TANDEM_CLUSTER_MEMBER="$<TARGET_FILE:tandem_cluster_member>"
  TANDEM_CLUSTER_TRAINER="$<TARGET_FILE:tandem_cluster_trainer>"
  TANDEM_TOOL="$<TARGET_FILE:tandem_tool>")
add_dependencies(tandem_test_cluster tandem_tool)

# A task of a cluster with parameter servers: see tests/distribute/server_member.cpp.
add_executable(tandem_server_member ${tests_dir}/distribute/server_member.cpp)
tandem_test_target(tandem_server_member)
set_target_properties(tandem_server_member PROPERTIES OUTPUT_NAME server_member)
target_compile_definitions(tandem_test_distribute PRIVATE
  TANDEM_SERVER_MEMBER="$<TARGET_FILE:tandem_server_member>"
  TANDEM_TOOL="$<TARGET_FILE:tandem_tool>")
add_dependencies(tandem_test_distribute tandem_server_member tandem_tool)

# Compares our ops with TensorFlow's: see tests/interop/run.py and `make interop`.
find_package(nlohmann_json QUIET)
if(nlohmann_json_FOUND)
  file(GLOB interop_sources CONFIGURE_DEPENDS ${tests_dir}/interop/*.cpp)
  tandem_program(tandem_interop tandem-interop ${interop_sources})
  target_link_libraries(tandem_interop PRIVATE tandem::tandem nlohmann_json::nlohmann_json)
endif()
