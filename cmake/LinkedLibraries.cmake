# Puts the libraries that `library` links, and those that they link, into a wheel, each under the name that it is looked
# for by. Those of the C and C++ compilers come from the system, as manylinux has it.

file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${library}
  RESOLVED_DEPENDENCIES_VAR found
  UNRESOLVED_DEPENDENCIES_VAR missing
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+)\\.so")
if(missing)
  message(FATAL_ERROR "${library} links what is not there: ${missing}")
endif()
foreach(path IN LISTS found)
  get_filename_component(name ${path} NAME)
  file(REAL_PATH ${path} file)
  message(STATUS "Inside the wheel: ${name}")
  file(COPY_FILE ${file} ${CMAKE_INSTALL_PREFIX}/tandem/lib/${name} ONLY_IF_DIFFERENT)
endforeach()
