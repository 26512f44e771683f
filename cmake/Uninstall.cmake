# Removes the files of an install manifest, and the folders that this leaves empty.
# usage: cmake -P cmake/Uninstall.cmake <install_manifest.txt>

set(manifest ${CMAKE_ARGV3})
if(NOT EXISTS ${manifest})
  message(FATAL_ERROR "There is no ${manifest}: nothing was installed from that build folder")
endif()
file(STRINGS ${manifest} files)
foreach(file IN LISTS files)
  set(path $ENV{DESTDIR}${file})
  message(STATUS "Removing: ${path}")
  file(REMOVE ${path})
  # Folders named after the project are ours.
  cmake_path(GET path PARENT_PATH folder)
  while(folder MATCHES "/tandem(/|$)")
    file(GLOB left ${folder}/*)
    if(left)
      break()
    endif()
    file(REMOVE_RECURSE ${folder})
    cmake_path(GET folder PARENT_PATH folder)
  endwhile()
endforeach()
file(REMOVE ${manifest})
