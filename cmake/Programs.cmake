# The programs of the tree: the `tandem` command, the examples, the bench. Targets carry the
# project's name, as other projects also have a `demo`; the programs themselves do not.

if(TANDEM_TOOL OR TANDEM_EXAMPLES)
  find_package(CLI11 REQUIRED)
endif()

function(tandem_program target program)
  add_executable(${target} ${ARGN})
  tandem_own_target(${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${program})
endfunction()

# The tool and the examples see what a user sees: the public headers and the library. CLI11 takes
# seconds to compile, and more to optimise.
if(TANDEM_TOOL)
  file(GLOB tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.cpp)
  tandem_program(tandem_tool tandem ${tool_sources})
  target_compile_definitions(tandem_tool PRIVATE TANDEM_VERSION="${PROJECT_VERSION}")
  target_compile_options(tandem_tool PRIVATE -O1)
  target_link_libraries(tandem_tool PRIVATE tandem::tandem CLI11::CLI11)
endif()

if(TANDEM_EXAMPLES)
  add_library(tandem_example_program OBJECT ${PROJECT_SOURCE_DIR}/examples/program.cpp)
  tandem_own_target(tandem_example_program)
  target_compile_options(tandem_example_program PRIVATE -O1)
  target_link_libraries(tandem_example_program PUBLIC tandem::tandem PRIVATE CLI11::CLI11)
  file(GLOB example_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)
  list(FILTER example_sources EXCLUDE REGEX "/program\\.cpp$")
  foreach(source IN LISTS example_sources)
    cmake_path(GET source STEM name)
    tandem_program(tandem_${name} ${name} ${source})
    target_link_libraries(tandem_${name} PRIVATE tandem_example_program)
  endforeach()
endif()

if(TANDEM_BENCH)
  file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cpp
    ${PROJECT_SOURCE_DIR}/bench/support/*.cpp)
  tandem_program(tandem_bench tandem-bench ${bench_sources})
  target_include_directories(tandem_bench PRIVATE
    ${PROJECT_SOURCE_DIR}/bench ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(tandem_bench PRIVATE tandem_internal)
  add_dependencies(tandem_bench tandem_plugins)

  # What mw_allreduce is measured against, where it is installed. Debian's openmpi-bin brings the compiler's wrapper
  # without the headers, and CMake's search ends in an error where it finds the one and not the other.
  find_path(TANDEM_MPI_HEADERS mpi.h PATH_SUFFIXES mpi openmpi mpich)
  mark_as_advanced(TANDEM_MPI_HEADERS)
  if(TANDEM_MPI_HEADERS)
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  if(MPI_CXX_FOUND)
    tandem_program(tandem_openmpi_allreduce openmpi_allreduce ${PROJECT_SOURCE_DIR}/bench/peers/openmpi_allreduce.cpp)
    target_link_libraries(tandem_openmpi_allreduce PRIVATE MPI::MPI_CXX)
    add_dependencies(tandem_bench tandem_openmpi_allreduce)
  endif()
endif()
