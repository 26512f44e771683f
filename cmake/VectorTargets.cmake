# Which instruction sets vector kernels are compiled for. Highway compiles a kernel once for each set
# it knows and chooses when the program starts; a set more is a compilation more.

# The steps between plain x86-64, SSE4, AVX2 and AVX-512 cost more time to compile than they save to
# run. Vectors of unknown length (SVE) cannot be members of classes, as our kernels have them.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  set(default_disabled "HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128")
else()
  set(default_disabled "HWY_SSSE3|HWY_AVX3_DL")
endif()
set(TANDEM_DISABLED_TARGETS ${default_disabled} CACHE STRING
    "Instruction sets to leave out of vector kernels, as Highway names them")
option(TANDEM_THIS_MACHINE
  "Compile vector kernels for the best instruction set of this machine and the plainest one only" OFF)

# TANDEM_VECTOR_DEFINITION is for each source that includes Highway. It is not for the others, so that
# they are not compiled again when it changes.
set(vector_disabled ${TANDEM_DISABLED_TARGETS})
if(TANDEM_THIS_MACHINE AND NOT CMAKE_CROSSCOMPILING)
  unset(TANDEM_PROBE_RAN CACHE)
  try_run(TANDEM_PROBE_RAN probe_compiled
    SOURCES ${PROJECT_SOURCE_DIR}/cmake/this_machine.cpp
    COMPILE_DEFINITIONS "-DHWY_DISABLED_TARGETS=(${TANDEM_DISABLED_TARGETS})"
    LINK_LIBRARIES hwy::hwy
    RUN_OUTPUT_VARIABLE sets_of_others)
  if(probe_compiled AND TANDEM_PROBE_RAN EQUAL 0)
    string(APPEND vector_disabled ${sets_of_others})
  else()
    message(WARNING "This machine's instruction set is not known; kernels are compiled for all")
  endif()
endif()
set(TANDEM_VECTOR_DEFINITION "HWY_DISABLED_TARGETS=(${vector_disabled})")
message(STATUS "Instruction sets left out of vector kernels: ${vector_disabled}")
