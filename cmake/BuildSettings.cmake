# What holds for everything we compile: language, optimisation, warnings, sanitizers, output folders.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# What a whole build is like is for the outermost project to say.
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

# Sanitized builds keep their asserts.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(TANDEM_SANITIZE)
    set(default_build_type Debug)
  else()
    set(default_build_type Release)
  endif()
  set(CMAKE_BUILD_TYPE ${default_build_type} CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TANDEM_CCACHE ccache)
  if(TANDEM_CCACHE)
    # With precompiled headers it asks for this; our sources name neither date nor time.
    set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${TANDEM_CCACHE})
  endif()
endif()

if(TANDEM_SANITIZE)
  list(JOIN TANDEM_SANITIZE "," sanitizers)
  add_compile_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=${sanitizers})
  # These builds also show whether each file includes what it uses.
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

add_link_options(-Wl,--as-needed)

# Marks a target as built from our own sources: hidden by default and free of warnings.
function(tandem_own_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -ffunction-sections -fdata-sections)
  if(TANDEM_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(TANDEM_SANITIZE)
    # GCC sees variables without a value inside of <regex> where sanitizers are on.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()
