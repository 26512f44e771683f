# The programs of the tree: the `tandem` command, the examples, the bench. A missing folder is an
# absent program.

file(GLOB tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.cpp)
if(tool_sources)
  find_package(CLI11 REQUIRED)
  add_executable(tandem_tool ${tool_sources})
  tandem_own_target(tandem_tool)
  set_target_properties(tandem_tool PROPERTIES OUTPUT_NAME tandem)
  target_link_libraries(tandem_tool PRIVATE tandem::tandem CLI11::CLI11)
endif()

# An example sees what a user sees: the public headers and the shared library.
file(GLOB example_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  add_executable(${name} ${source})
  tandem_own_target(${name})
  target_link_libraries(${name} PRIVATE tandem::tandem)
endforeach()

file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.cpp)
if(bench_sources)
  add_executable(tandem-bench ${bench_sources})
  tandem_own_target(tandem-bench)
  target_include_directories(tandem-bench PRIVATE
    ${PROJECT_SOURCE_DIR}/bench ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(tandem-bench PRIVATE tandem_internal)
endif()
