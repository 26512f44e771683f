# LevelDB, found by header and library: the package's own configuration adds a definition to every
# source that only one of them needs. Defines LevelDB::leveldb.

find_path(LevelDB_INCLUDE_DIR leveldb/table.h)
find_library(LevelDB_LIBRARY leveldb)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LevelDB
  REQUIRED_VARS LevelDB_LIBRARY LevelDB_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "On Debian: apt-get install libleveldb-dev")
mark_as_advanced(LevelDB_INCLUDE_DIR LevelDB_LIBRARY)

if(LevelDB_FOUND AND NOT TARGET LevelDB::leveldb)
  add_library(LevelDB::leveldb UNKNOWN IMPORTED)
  set_target_properties(LevelDB::leveldb PROPERTIES
    IMPORTED_LOCATION ${LevelDB_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${LevelDB_INCLUDE_DIR})
endif()
