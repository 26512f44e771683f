# A serial build of OpenBLAS that knows many CPUs, linked from its archive. A shared libopenblas or
# libblas is whatever the system's alternatives say it is, often a build with a thread pool of its
# own; the archive is certain. Debian has it in a folder of its own; elsewhere its header must say
# that it is serial. Defines OpenBLASSerial::openblas, whose users must link openblas_buffers.cpp and
# openblas_core.cpp of src/kernels/cpu/gemm, which say why.

find_library(OpenBLASSerial_LIBRARY NAMES openblas-serial/libopenblas.a libopenblas.a)
find_path(OpenBLASSerial_INCLUDE_DIR NAMES openblas_config.h
  PATH_SUFFIXES openblas-serial openblas)
if(OpenBLASSerial_INCLUDE_DIR)
  file(STRINGS ${OpenBLASSerial_INCLUDE_DIR}/openblas_config.h OpenBLASSerial_THREADS
    REGEX "#define OPENBLAS_SMP_SERVER")
endif()
if(NOT OpenBLASSerial_THREADS)
  set(OpenBLASSerial_IS_SERIAL ON)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLASSerial
  REQUIRED_VARS OpenBLASSerial_LIBRARY OpenBLASSerial_INCLUDE_DIR OpenBLASSerial_IS_SERIAL
  REASON_FAILURE_MESSAGE "On Debian: apt-get install libopenblas-serial-dev")
mark_as_advanced(OpenBLASSerial_LIBRARY OpenBLASSerial_INCLUDE_DIR)

if(OpenBLASSerial_FOUND AND NOT TARGET OpenBLASSerial::openblas)
  find_package(Threads REQUIRED)
  add_library(OpenBLASSerial::openblas STATIC IMPORTED)
  set_target_properties(OpenBLASSerial::openblas PROPERTIES
    IMPORTED_LOCATION ${OpenBLASSerial_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenBLASSerial_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES "Threads::Threads;m"
    INTERFACE_LINK_OPTIONS
      "LINKER:--wrap=blas_memory_alloc,--wrap=blas_memory_free,--undefined=__wrap_blas_memory_alloc;LINKER:--wrap=gotoblas_dynamic_init,--undefined=__wrap_gotoblas_dynamic_init")
endif()
