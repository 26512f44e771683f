# Parts of the library that need other libraries, each a file beside it that is opened at first use
# (src/core/plugin.h). What one needs is found here or the plugin is left out; `tandem_plugins` builds
# those that are left.

add_custom_target(tandem_plugins)
set(tandem_plugins "")

# tandem_plugin(<name> <folder of src> <Debian package> <pkg-config module>...)
function(tandem_plugin name folder package)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(tandem_${name} QUIET IMPORTED_TARGET ${ARGN})
  endif()
  if(NOT TARGET PkgConfig::tandem_${name})
    message(STATUS "Without the plugin ${name}: on Debian, apt-get install ${package}")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  add_library(tandem_${name} MODULE ${sources})
  tandem_own_target(tandem_${name})
  target_compile_definitions(tandem_${name} PRIVATE TANDEM_VERSION="${PROJECT_VERSION}")
  target_include_directories(tandem_${name} PRIVATE src include)
  target_link_libraries(tandem_${name} PRIVATE PkgConfig::tandem_${name})
  add_dependencies(tandem_plugins tandem_${name})
  set(tandem_plugins ${tandem_plugins} tandem_${name} PARENT_SCOPE)
endfunction()

tandem_plugin(ucx collective/ucx libucx-dev ucx)
tandem_plugin(grpc cluster/grpc "libgrpc++-dev libssl-dev" grpc++ openssl)
