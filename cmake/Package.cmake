# Installing, and being found again: find_package(tandem) and pkg-config.

include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# Relative to the .pc file, so that an installed tree may be moved.
file(RELATIVE_PATH prefix_from_pkgconfig /${pkgconfig_dir} /)

if(BUILD_SHARED_LIBS)
  set(pkgconfig_libs "-Wl,-rpath,\${libdir} -ltandem")
else()
  # A static library leaves its dependencies to the program, which has to find them as we did.
  set(config_modules DNNL LevelDB LibZip OpenBLASSerial)
  foreach(module IN LISTS config_modules)
    install(FILES cmake/Find${module}.cmake DESTINATION ${config_dir})
  endforeach()
  get_target_property(wraps OpenBLASSerial::openblas INTERFACE_LINK_OPTIONS)
  # Also for programs under older policies, where link options do not pass through a static library.
  target_link_options(tandem INTERFACE ${wraps})
  list(TRANSFORM wraps REPLACE "^LINKER:" "-Wl,")
  list(JOIN wraps " " wraps)
  set(pkgconfig_requires "Requires: fmt libhwy libzip zlib")
  set(pkgconfig_libs "-ltandem ${wraps} ${DNNL_LIBRARY} ${OpenBLASSerial_LIBRARY} ${LevelDB_LIBRARY} -lgomp -pthread")
endif()
configure_file(cmake/tandem.pc.in tandem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${pkgconfig_dir})

install(TARGETS tandem EXPORT tandem_targets)
foreach(plugin IN LISTS tandem_plugins)
  install(TARGETS ${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
install(DIRECTORY include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT tandem_targets NAMESPACE tandem:: FILE tandem-targets.cmake DESTINATION ${config_dir})
configure_package_config_file(cmake/tandem-config.cmake.in tandem-config.cmake
  INSTALL_DESTINATION ${config_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/tandem-config.cmake
  ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
  DESTINATION ${config_dir})

if(TANDEM_TOOL)
  file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(tandem_tool PROPERTIES INSTALL_RPATH $ORIGIN/${lib_from_bin})
  install(TARGETS tandem_tool)
endif()
