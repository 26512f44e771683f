/// Reads a checkpoint's files, checking all that is read. Any thread may use a reader. Errors name
/// the file and the key; what is damaged is DataLoss.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/bundle_format.h"
#include "checkpoint/files.h"

namespace tandem::checkpoint {

class BundleReader {
 public:
  /// Reads the index. The data files are opened with it, so that they stay readable when they are
  /// removed. Throws NotFound when there is no such checkpoint, DataLoss when a part of it is
  /// missing, Unimplemented for big-endian files.
  explicit BundleReader(std::filesystem::path prefix);

  const std::filesystem::path& prefix() const { return prefix_; }
  /// What the index says of whole tensors; their slices are not among them.
  const std::map<std::string, BundleEntry>& entries() const { return entries_; }

  /// Throws NotFound, naming some keys that exist.
  const BundleEntry& entry(const std::string& key) const;

  /// Where the bytes of one tensor go: to memory, or else to `put`, a piece at a time, in any
  /// order, on any thread.
  struct Target {
    std::string key;
    char* to = nullptr;
    std::function<void(size_t offset, std::span<char> piece)> put{};
  };

  /// Reads the bytes of tensors of any type but string, on several threads. With neither `to`
  /// nor `put` they are only checked. Throws Unimplemented for a tensor that is stored in slices
  /// whose elements do not follow one another.
  void read(std::span<const Target> targets) const;

  /// The value of a scalar string. Throws InvalidArgument when the key holds something else.
  std::string read_string(const std::string& key) const;

 private:
  struct Run;
  struct Piece;

  int read_index();
  void open_files(int shards);
  std::vector<Run> runs_of(std::span<const Target> targets) const;
  void add_slices(const Target& target, std::vector<Run>& runs) const;
  static std::vector<Piece> cut(const std::vector<Run>& runs);
  void read_piece(Piece& piece) const;
  void check(const std::vector<Run>& runs, const std::vector<Piece>& pieces) const;
  void check_within_file(const std::string& key, const BundleEntry& entry) const;
  const OpenFile& file_of(const BundleEntry& entry) const;
  std::string where(const std::string& key, const BundleEntry& entry) const;

  const std::filesystem::path prefix_;
  std::map<std::string, BundleEntry> entries_;
  std::map<std::string, BundleEntry> slices_;
  std::vector<std::unique_ptr<OpenFile>> files_;
};

}  // namespace tandem::checkpoint
