/// Files that appear whole or not at all, also when the machine stops at any moment. Errors name
/// the path: NotFound for what cannot be opened, Unavailable for what cannot be written, DataLoss
/// for what ends too early.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::checkpoint {

/// Written beside its place, then moved there; removed if that never happens.
class NewFile {
 public:
  explicit NewFile(std::filesystem::path path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Before the first write: how much will come. Writing is then cheaper.
  void reserve(uint64_t bytes);

  /// Appends; the disk begins while more is written.
  void write(const char* data, size_t bytes);

  /// After the last write. Returns once the disk has it all.
  void sync();

  /// Gives the file its name. Durable after sync_folder.
  void rename();

 private:
  const std::filesystem::path path_;
  const std::filesystem::path partial_;
  void write_gathered();
  void write_part(const char* data, size_t bytes);

  int file_ = -1;
  std::string gathered_;
  uint64_t written_ = 0;
  uint64_t begun_ = 0;  // Bytes that the disk was asked to begin with.
};

void make_folder(const std::filesystem::path& folder);

/// False where there is no such file.
bool remove_file(const std::filesystem::path& path);

/// Returns once the disk has the names of the files in it.
void sync_folder(const std::filesystem::path& folder);

/// Whole, synced and named, in one call.
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
