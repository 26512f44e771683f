#include "checkpoint/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "tandem/error.h"

namespace tandem::checkpoint {
namespace {

// Smaller ones are as quick through the page cache.
constexpr uint64_t kLargeFile = 8 << 20;

std::string reason() { return std::generic_category().message(errno); }

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw Unavailable(fmt::format("{}: the file cannot be written: {}", path.string(), reason()));
}

/// Holds a file that is about to go. To free what it has on the disk takes long, some 70 ms for 256
/// MB: that is done behind the caller's back, one file at a time.
class LateFree {
 public:
  explicit LateFree(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~LateFree() {
    if (file_ < 0) return;
    struct stat status {};
    constexpr off_t kSmallFile = 1 << 20;
    if (::fstat(file_, &status) != 0 || status.st_size < kSmallFile) {
      ::close(file_);
      return;
    }
    static std::mutex mutex;
    static std::jthread last;
    const std::lock_guard lock(mutex);
    last = std::jthread([file = file_] { ::close(file); });
  }
  LateFree(const LateFree&) = delete;
  LateFree& operator=(const LateFree&) = delete;

 private:
  const int file_;
};

}  // namespace

NewFile::NewFile(std::filesystem::path path)
    : path_(std::move(path)), partial_(path_.string() + kPartialSuffix) {
  file_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) cannot_write(partial_);
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(partial_.c_str());
}

void NewFile::reserve(uint64_t bytes) {
  if (bytes < kLargeFile) return;
  // Not all file systems can do either. That there is no room shows when it is written.
  ::fallocate(file_, 0, 0, static_cast<off_t>(bytes));
  direct_ = ::fcntl(file_, F_SETFL, O_DIRECT) == 0;
}

void NewFile::write_at(const char* data, size_t bytes, uint64_t offset) {
  bool may_retry = direct_;
  while (bytes > 0) {
    const ssize_t written = ::pwrite(file_, data, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && std::exchange(may_retry, false)) {
      ::fcntl(file_, F_SETFL, 0);  // A disk that wants larger multiples.
      continue;
    }
    if (written < 0) cannot_write(partial_);
    data += written;
    bytes -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
}

void NewFile::finish(uint64_t bytes) {
  if (::ftruncate(file_, static_cast<off_t>(bytes)) != 0) cannot_write(partial_);
  if (::fsync(file_) != 0) cannot_write(partial_);
}

void write_small(NewFile& file, std::string_view bytes) {
  file.write_at(bytes.data(), bytes.size(), 0);
  file.finish(bytes.size());
}

void NewFile::rename() {
  const LateFree former(path_);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) cannot_write(path_);
  ::close(std::exchange(file_, -1));
}

void NewFile::leave() { ::close(std::exchange(file_, -1)); }

void rename_partial(const std::filesystem::path& path) {
  const LateFree former(path);
  if (::rename((path.string() + kPartialSuffix).c_str(), path.c_str()) != 0) cannot_write(path);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    throw Unavailable(
        fmt::format("{}: the folder cannot be made: {}", folder.string(), error.message()));
  }
}

bool remove_file(const std::filesystem::path& path) {
  const LateFree former(path);
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  throw Unavailable(fmt::format("{}: the file cannot be removed: {}", path.string(), reason()));
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = file >= 0 && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) ::close(file);
  errno = error;
  if (!synced) cannot_write(path);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  NewFile file(path);
  write_small(file, bytes);
  file.rename();
  sync_folder(path.parent_path());
}

std::string read_file(const std::filesystem::path& path) {
  const OpenFile file(path);
  std::string bytes(file.bytes(), '\0');
  file.read(bytes.data(), bytes.size(), 0);
  return bytes;
}

OpenFile::OpenFile(std::filesystem::path path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file_ < 0 || ::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    const std::string why = file_ < 0 ? reason() : "it is no regular file";
    if (file_ >= 0) ::close(file_);
    throw NotFound(fmt::format("{}: no file that can be read: {}", path_.string(), why));
  }
  bytes_ = static_cast<uint64_t>(status.st_size);
}

OpenFile::~OpenFile() { ::close(file_); }

void OpenFile::read(char* to, size_t bytes, uint64_t offset) const {
  while (bytes > 0) {
    const ssize_t got = ::pread(file_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Unavailable(fmt::format("{}: the file cannot be read: {}", path_.string(), reason()));
    }
    if (got == 0) {
      throw DataLoss(fmt::format("{}: the file ends at {}, {} more bytes were expected",
                                 path_.string(), offset, bytes));
    }
    to += got;
    bytes -= static_cast<size_t>(got);
    offset += static_cast<uint64_t>(got);
  }
}

}  // namespace tandem::checkpoint
