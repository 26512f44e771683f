/// Writes a checkpoint's files: an index, and data in one file or in several. Others write some of
/// them: the processes of a group, or those that keep some of the values themselves
/// (checkpoint/keepers.h).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/bundle_format.h"
#include "checkpoint/keepers.h"
#include "checkpoint/run_writer.h"
#include "op/group.h"
#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem::checkpoint {

class BundleWriter {
 public:
  /// Keepers write what they have. The processes of a group write together: each adds the same keys
  /// in the same order.
  explicit BundleWriter(std::shared_ptr<Keepers> keepers = {},
                        std::shared_ptr<op::Group> group = {});

  /// The bytes must stay as they are until `write` returns. Keys are not empty, and added once.
  /// Process `writer` of a group writes them; others need not have them.
  void add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes, int writer = 0);

  /// Keepers have the `elements`, as this process has them in `bytes`; without any it writes.
  void add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes,
           std::vector<KeptElements> elements);

  /// True for the process that writes what `writer` does.
  bool writes(int writer) const { return writer == rank(); }

  /// A scalar string; copied. The first process writes it.
  void add_string(const std::string& key, std::string_view value);

  /// Writes `prefix`.data-00000-of-00001, or several, then `prefix`.index, each whole or not at
  /// all; makes the folder. Once it returns the disk has all. A checkpoint of the same name is gone
  /// as soon as the new data is complete. Throws Unavailable when a file cannot be written, on all
  /// processes.
  void write(const std::filesystem::path& prefix);

 private:
  struct Item {
    std::string key;
    int type = 0;
    std::vector<int64_t> sizes;
    ByteRun bytes;
    std::string stored;  // The bytes of a string.
    uint32_t crc = 0;    // Its checksum.
    int64_t size = 0;    // In bytes.
    int writer = 0;
    std::vector<KeptElements> elements;
  };
  /// Bytes that follow one another in a data file and have a checksum.
  struct Run {
    const Item* item = nullptr;
    std::optional<TensorSlice> slice;  // None: all of the item.
    KeptBytes kept;
    ByteRun bytes;  // None where another process of the group writes them.
    int64_t size = 0;
    uint32_t crc = 0;
  };
  /// A data file: runs, then what a keeper has noted.
  struct File {
    std::filesystem::path path;
    std::vector<Run> runs;
    std::string notes;  // As it is stored,
    uint64_t notes_bytes = 0;
    uint32_t notes_crc = 0;
    std::unique_ptr<NewFile> made;  // Null where somebody else has made it.
  };

  int rank() const { return group_ ? group_->rank() : 0; }
  int count_files() const;
  std::vector<File> lay_out(const std::filesystem::path& prefix) const;
  void add_runs(const Item& item, std::vector<File>& files) const;
  static void write_here(File& file);
  void exchange_checksums(std::vector<File>& files) const;
  void have_keepers_write(std::vector<File>& files);
  void rename_data(std::vector<File>& files) const;
  std::string index(const std::vector<File>& files) const;
  template <class Act>
  void act(const char* what, const Act& act) const;

  const std::shared_ptr<Keepers> keepers_;
  const std::shared_ptr<op::Group> group_;
  std::vector<Item> items_;
};

/// The key of a keeper's notes.
std::string notes_key(int keeper);

}  // namespace tandem::checkpoint
