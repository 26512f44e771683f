/// Files that appear whole or not at all, also when the machine stops at any moment. Errors name
/// the path: NotFound for what cannot be opened, Unavailable for what cannot be written, DataLoss
/// for what ends too early.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::checkpoint {

/// What the name of a file ends with until it is whole.
inline constexpr const char* kPartialSuffix = ".partial";

/// A file that is written beside its place, then moved there; removed if that never happens.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Says before the first write how much will come. A large file is then written past the page
  /// cache.
  void reserve(uint64_t bytes);

  /// After `reserve`, memory, offset and number of bytes are multiples of kAlignment. Several
  /// threads may write.
  static constexpr size_t kAlignment = 4096;
  void write_at(const char* data, size_t bytes, uint64_t offset);

  /// Says after the last write how many bytes the file has. Returns once the disk has them.
  void finish(uint64_t bytes);

  /// Gives the file its name. Durable after sync_folder.
  void rename();
  /// Leaves that to another process: see rename_partial.
  void leave();

 private:
  const std::filesystem::path path_;
  const std::filesystem::path partial_;
  int file_ = -1;
  bool direct_ = false;  // The file is written past the page cache.
};

/// Gives a file its name that another process has written and left.
void rename_partial(const std::filesystem::path& path);

/// All of a file that needs no speed.
void write_small(NewFile& file, std::string_view bytes);

void make_folder(const std::filesystem::path& folder);

/// False where there is no such file.
bool remove_file(const std::filesystem::path& path);

/// Returns once the disk has the names of the files in it.
void sync_folder(const std::filesystem::path& folder);

/// Writes a file whole, synced and named, in one call.
void write_file(const std::filesystem::path& path, std::string_view bytes);

std::string read_file(const std::filesystem::path& path);

/// A file for reading. Any thread may use it. What it holds stays readable when it is removed.
class OpenFile {
 public:
  explicit OpenFile(std::filesystem::path path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  void read(char* to, size_t bytes, uint64_t offset) const;

 private:
  const std::filesystem::path path_;
  int file_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace tandem::checkpoint
