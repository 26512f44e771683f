/// Writes a checkpoint's files: the data, in one file or in one of each process that writes, and
/// the index.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/run_writer.h"
#include "op/group.h"
#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem::checkpoint {

class BundleWriter {
 public:
  /// With a group, its processes write together: each adds the same keys in the same order.
  explicit BundleWriter(std::shared_ptr<op::Group> group = {}) : group_(std::move(group)) {}

  /// The bytes must stay as they are until `write` returns. Keys are not empty, and added once.
  /// Process `writer` of several writes them; others need not have them.
  void add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes, int writer = 0);

  /// True for the process that writes what `writer` does.
  bool writes(int writer) const { return writer == rank(); }

  /// A scalar string; copied. The first process writes it.
  void add_string(const std::string& key, std::string_view value);

  /// Writes `prefix`.data-00000-of-00001, then `prefix`.index, each whole or not at all; makes the
  /// folder. Once it returns the disk has both. A checkpoint of the same name is gone as soon as
  /// the new data is complete. Throws Unavailable when a file cannot be written, on all processes.
  void write(const std::filesystem::path& prefix);

 private:
  struct Item {
    std::string key;
    int type = 0;
    std::vector<int64_t> sizes;
    ByteRun bytes;
    std::string stored;  // The bytes of a string.
    uint32_t crc = 0;
    int writer = 0;
    int64_t size = 0;
  };

  int rank() const { return group_ ? group_->rank() : 0; }
  int writers() const { return group_ ? group_->size() : 1; }
  std::vector<ByteRun> runs() const;
  void add_checksums(int writer, const std::vector<uint32_t>& crcs);
  void exchange_checksums();
  template <class Act>
  void act(const char* what, const Act& act);
  std::string index() const;
  void remove_others_data(const std::filesystem::path& prefix) const;

  const std::shared_ptr<op::Group> group_;
  std::vector<Item> items_;
};

}  // namespace tandem::checkpoint
