#include "tandem/tensor/npy.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include "tandem/error.h"
#include "tensor/npy_array.h"

namespace tandem {
namespace {

class File final : public npy::ByteSource {
 public:
  explicit File(const std::filesystem::path& path) : stream_(path, std::ios::binary) {
    std::error_code error;
    remaining_ = std::filesystem::file_size(path, error);
    if (error || !stream_) throw NotFound("no file that can be read");
  }

  uint64_t remaining() const override { return remaining_; }

  void read(void* to, size_t bytes) override {
    if (!stream_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) {
      throw DataLoss("the file ended while it was read");
    }
    remaining_ -= bytes;
  }

 private:
  std::ifstream stream_;
  uint64_t remaining_ = 0;
};

/// A file that is written beside its place and moved there once it is whole; removed if that never
/// happens.
class NewNpyFile {
 public:
  explicit NewNpyFile(const std::filesystem::path& path)
      : path_(path), partial_(path.string() + ".partial"), stream_(partial_, std::ios::binary) {}

  ~NewNpyFile() {
    std::error_code ignored;
    if (!done_) std::filesystem::remove(partial_, ignored);
  }
  NewNpyFile(const NewNpyFile&) = delete;
  NewNpyFile& operator=(const NewNpyFile&) = delete;

  void write(std::span<const char> bytes) {
    stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  void finish() {
    stream_.close();
    std::error_code error;
    if (stream_) std::filesystem::rename(partial_, path_, error);
    if (!stream_ || error) throw Unavailable("the file cannot be written");
    done_ = true;
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::ofstream stream_;
  bool done_ = false;
};

}  // namespace

Tensor load_npy(const std::filesystem::path& path) {
  try {
    File file(path);
    return npy::read_array(file);
  } catch (const Error& error) {
    error.rethrow_within(fmt::format("load_npy: {}", path.string()));
    throw;
  }
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  try {
    const npy::Image image(tensor);
    NewNpyFile file(path);
    file.write(image.header());
    file.write(image.elements());
    file.finish();
  } catch (const Error& error) {
    error.rethrow_within(fmt::format("save_npy: {}", path.string()));
    throw;
  }
}

}  // namespace tandem
