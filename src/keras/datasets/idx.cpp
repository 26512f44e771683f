#include "keras/datasets/idx.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tandem/error.h"
#include "tensor/body.h"

namespace tandem::keras {
namespace {

/// Bytes of a file, decompressed where it is compressed.
class Bytes {
 public:
  explicit Bytes(const std::filesystem::path& path) : file_(gzopen(path.c_str(), "rb")) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error || !file_) throw NotFound("no file that can be read");
  }

  void read(uint8_t* to, size_t bytes) {
    while (bytes > 0) {
      constexpr size_t kAtOnce = size_t{1} << 30;
      const int got = gzread(file_.get(), to, static_cast<unsigned>(std::min(bytes, kAtOnce)));
      if (got <= 0) fail("it ends too early");
      to += got;
      bytes -= static_cast<size_t>(got);
    }
  }

  /// gzip's checksum is compared when one reads beyond the last byte.
  void check_end() {
    uint8_t beyond = 0;
    if (gzread(file_.get(), &beyond, 1) > 0) throw DataLoss("it is longer than its header says");
    int code = Z_OK;
    const char* message = gzerror(file_.get(), &code);
    if (code != Z_OK) throw DataLoss(message);
  }

  /// The most that can come out of the file: deflate packs at best 1032 bytes into one.
  size_t most() const { return size_ * 1032; }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  [[noreturn]] void fail(const char* otherwise) const {
    int code = Z_OK;
    const char* message = gzerror(file_.get(), &code);
    throw DataLoss(code == Z_OK ? otherwise : message);
  }

  std::unique_ptr<gzFile_s, Close> file_;
  size_t size_ = 0;
};

uint32_t big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// Two zeros, the kind of elements, the number of axes; then the size of each axis in four bytes.
Shape read_header(Bytes& bytes) {
  std::array<uint8_t, 4> magic{};
  bytes.read(magic.data(), magic.size());
  if (magic[0] != 0 || magic[1] != 0) throw DataLoss("it does not begin as an IDX file does");
  constexpr uint8_t kUnsignedByte = 8;
  if (magic[2] != kUnsignedByte) {
    throw Unimplemented(fmt::format("elements of kind {:#04x}; unsigned bytes, 0x08, are read",
                                    static_cast<int>(magic[2])));
  }
  if (magic[3] > Shape::kMaxRank) {
    throw DataLoss(
        fmt::format("{} axes; at most {} are read", static_cast<int>(magic[3]), Shape::kMaxRank));
  }
  std::vector<int64_t> sizes;
  uint64_t count = 1;
  for (int axis = 0; axis < magic[3]; ++axis) {
    std::array<uint8_t, 4> size{};
    bytes.read(size.data(), size.size());
    sizes.push_back(big_endian(size.data()));
    count *= static_cast<uint64_t>(sizes.back());
    if (count > bytes.most()) {
      throw DataLoss(fmt::format("a file of its size cannot hold {}", Shape(sizes).str()));
    }
  }
  return Shape(sizes);
}

}  // namespace

Tensor load_idx(const std::filesystem::path& path) {
  try {
    Bytes bytes(path);
    const Shape shape = read_header(bytes);
    const auto body = new_body(devices::host_device(), DType::uint8, shape);
    bytes.read(static_cast<uint8_t*>(body->data()), body->bytes());
    bytes.check_end();
    return Tensor(body);
  } catch (const Error& error) {
    error.rethrow_within(path.string());
    throw;
  }
}

}  // namespace tandem::keras
