# Installing, and being found again: find_package(tandem) and pkg-config.

include(CMakePackageConfigHelpers)

install(TARGETS tandem EXPORT tandem_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(EXPORT tandem_targets NAMESPACE tandem:: FILE tandem-targets.cmake DESTINATION ${config_dir})
configure_package_config_file(cmake/tandem-config.cmake.in tandem-config.cmake
  INSTALL_DESTINATION ${config_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(tandem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/tandem-config.cmake
  ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
  DESTINATION ${config_dir})

# Relative to the .pc file, so that an installed tree may be moved.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig /${pkgconfig_dir} /)
configure_file(cmake/tandem.pc.in tandem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${pkgconfig_dir})
