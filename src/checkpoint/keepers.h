/// Values that other tasks keep, as parameter servers do. Before variables are saved keepers bring
/// them to rest, and each writes what it has to a data file of its own:
///
///   ckpt-1.index                 the process that saves: where each value is
///   ckpt-1.data-00000-of-00003   the process that saves: what nobody else keeps
///   ckpt-1.data-00001-of-00003   the first keeper, and so on
///
/// A variable that several keepers have parts of is stored in slices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/store.h"

namespace tandem::checkpoint {

/// Elements of a variable that one keeper has.
struct KeptElements {
  int keeper = 0;
  uint64_t place = 0;  ///< The keeper's number for them.
  int64_t begin = 0;   ///< Their place in the variable.
  int64_t count = 0;
};

/// Some bytes of what a keeper has at a place.
struct KeptBytes {
  uint64_t place = 0;
  uint64_t offset = 0;
  uint64_t count = 0;
};

/// What a keeper is to write, one after another.
struct KeeperFile {
  std::filesystem::path path;
  std::vector<KeptBytes> runs;
};

/// What it has written: behind the runs there is a text of its own, as bundle_format.h stores it.
struct WrittenKeeperFile {
  std::vector<uint32_t> crcs;  ///< The runs' checksums.
  uint64_t notes_bytes = 0;
  uint32_t notes_crc = 0;
};

class Keepers {
 public:
  virtual ~Keepers();

  /// Waits until nobody changes variables, and those of this process have the keepers' values.
  virtual void settle() = 0;

  /// How many write files of their own now.
  virtual int count() const { return 0; }

  /// Who has the elements of a variable, in their order; none where this process is to write it.
  virtual std::vector<KeptElements> elements_of(const StoreRange& variable) const;

  /// Has each keeper write its file, under its name with kPartialSuffix. Nothing for one whose file
  /// cannot be seen from here, since they have no folder in common.
  virtual std::vector<std::optional<WrittenKeeperFile>> write_files(
      const std::vector<KeeperFile>& files);
  /// What a keeper would have written behind its runs.
  virtual std::string notes_of(int keeper) const;

  /// The files of the last write_files() have their names, and an index.
  virtual void note_complete() {}
};

/// From now on, for as long as they live, they are asked whenever this process saves.
void add_keepers(const std::shared_ptr<Keepers>& keepers);

/// Brings all to rest, and returns those that write files; null: none do.
std::shared_ptr<Keepers> settled_keepers();

}  // namespace tandem::checkpoint
