/// Writes a checkpoint's two files.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/run_writer.h"
#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem::checkpoint {

class BundleWriter {
 public:
  /// The bytes must stay as they are until `write` returns. Keys are not empty, and added once.
  void add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes);

  /// A scalar string; copied.
  void add_string(const std::string& key, std::string_view value);

  /// Writes `prefix`.data-00000-of-00001, then `prefix`.index, each whole or not at all; makes the
  /// folder. Once it returns the disk has both. A checkpoint of the same name is gone as soon as
  /// the new data is complete. Throws Unavailable when a file cannot be written.
  void write(const std::filesystem::path& prefix);

 private:
  struct Item {
    std::string key;
    int type = 0;
    std::vector<int64_t> sizes;
    ByteRun bytes;
    std::string stored;  // The bytes of a string.
    uint32_t crc = 0;
  };

  std::vector<ByteRun> runs() const;
  void add_checksums(const std::vector<uint32_t>& crcs);
  std::string index() const;

  std::vector<Item> items_;
};

}  // namespace tandem::checkpoint
