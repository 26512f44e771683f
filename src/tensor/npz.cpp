// NumPy's .npz files: zip archives of .npy files. The sizes that an archive claims for its entries
// are checked before memory is taken for them.
#include <fmt/format.h>
#include <zip.h>

#include <array>
#include <fstream>
#include <limits>
#include <memory>
#include <vector>

#include "tandem/error.h"
#include "tandem/tensor/npy.h"
#include "tensor/npy_array.h"

namespace tandem {
namespace {

constexpr std::string_view kSuffix = ".npy";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

struct Close {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};

std::string message_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string message = zip_error_strerror(&error);
  zip_error_fini(&error);
  return message;
}

Archive open_archive(const std::filesystem::path& path, int flags) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), flags, &code));
  if (archive) return archive;
  if (code == ZIP_ER_NOENT || code == ZIP_ER_OPEN) throw NotFound("no file that can be read");
  throw DataLoss(fmt::format("not a zip archive: {}", message_of(code)));
}

class ZipEntry final : public npy::ByteSource {
 public:
  ZipEntry(zip_t* archive, const zip_stat_t& stat, uint64_t file_bytes)
      : entry_(zip_fopen_index(archive, stat.index, 0)), remaining_(stat.size) {
    if (!entry_) throw DataLoss(zip_strerror(archive));
    check_claim(stat, file_bytes);
  }

  uint64_t remaining() const override { return remaining_; }

  void read(void* to, size_t bytes) override {
    auto* at = static_cast<char*>(to);
    for (size_t left = bytes; left > 0;) {
      const zip_int64_t got = zip_fread(entry_.get(), at, left);
      if (got <= 0) fail();
      at += got;
      left -= static_cast<size_t>(got);
    }
    remaining_ -= bytes;
    if (remaining_ == 0) check_end();
  }

 private:
  /// An archive may claim any size for its entries. Deflate makes at most 1032 bytes of one.
  static void check_claim(const zip_stat_t& stat, uint64_t file_bytes) {
    constexpr uint64_t kMostPerByte = 1032;
    const bool stored = stat.comp_method == ZIP_CM_STORE;
    if (stat.comp_size <= file_bytes &&
        (stored ? stat.size == stat.comp_size : stat.size / kMostPerByte <= stat.comp_size)) {
      return;
    }
    throw DataLoss(fmt::format("{} bytes cannot come from {} in a file of {}", stat.size,
                               stat.comp_size, file_bytes));
  }

  /// The checksum is compared when one reads beyond the last byte.
  void check_end() {
    char beyond = 0;
    if (zip_fread(entry_.get(), &beyond, 1) != 0) fail();
  }

  [[noreturn]] void fail() const {
    const zip_error_t* error = zip_file_get_error(entry_.get());
    if (zip_error_code_zip(error) == ZIP_ER_OK)
      throw DataLoss("the entry is shorter than promised");
    throw DataLoss(message_of(zip_error_code_zip(error)));
  }

  std::unique_ptr<zip_file_t, Close> entry_;
  uint64_t remaining_;
};

zip_stat_t stat_of(zip_t* archive, zip_uint64_t index) {
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
    throw DataLoss(fmt::format("entry {} cannot be read: {}", index, zip_strerror(archive)));
  }
  return stat;
}

std::string name_of_entry(const zip_stat_t& stat) {
  std::string name = stat.name;
  if (!name.ends_with(kSuffix)) {
    throw Unimplemented("not an array; names of arrays end in .npy");
  }
  name.resize(name.size() - kSuffix.size());
  return name;
}

void load_entry(zip_t* archive, const zip_stat_t& stat, uint64_t file_bytes,
                NamedTensors& tensors) {
  const std::string name = name_of_entry(stat);
  if (stat.encryption_method != ZIP_EM_NONE) throw Unimplemented("the entry is encrypted");
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    throw Unimplemented(
        fmt::format("compression method {}; stored and deflated are known", stat.comp_method));
  }
  ZipEntry entry(archive, stat, file_bytes);
  if (!tensors.emplace(name, npy::read_array(entry)).second) {
    throw DataLoss("the archive has two entries of this name");
  }
}

void add_entry(zip_t* archive, const std::string& name, const npy::Image& image, bool compress) {
  // Taken over by the archive with the last call that can fail.
  std::array<zip_buffer_fragment_t, 2> parts{};
  size_t count = 0;
  for (const auto bytes : {image.header(), image.elements()}) {
    if (bytes.empty()) continue;
    auto* data = reinterpret_cast<zip_uint8_t*>(const_cast<char*>(bytes.data()));
    parts[count++] = {data, bytes.size()};
  }
  zip_source_t* source = zip_source_buffer_fragment(archive, parts.data(), count, 0);
  if (source == nullptr) throw Unavailable(zip_strerror(archive));
  const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    throw Unavailable(zip_strerror(archive));
  }
  const auto at = static_cast<zip_uint64_t>(index);
  // The first day of zip's calendar: the same tensors make the same bytes.
  constexpr zip_uint16_t kFirstDay = 1 << 5 | 1;
  if (zip_set_file_compression(archive, at, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, at, 0, kFirstDay, 0) != 0) {
    throw Unavailable(zip_strerror(archive));
  }
}

/// The library makes no file for an archive without entries.
void write_empty_archive(const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::binary);
  const std::string end_record = std::string("PK\5\6") + std::string(18, '\0');
  if (!file.write(end_record.data(), static_cast<std::streamsize>(end_record.size())).flush()) {
    throw Unavailable("the file cannot be written");
  }
}

}  // namespace

NamedTensors load_npz(const std::filesystem::path& path) {
  std::string place = fmt::format("load_npz: {}", path.string());
  try {
    const Archive archive = open_archive(path, ZIP_RDONLY);
    std::error_code error;
    const uint64_t file_bytes = std::filesystem::file_size(path, error);
    if (error) throw NotFound("no file that can be read");
    NamedTensors tensors;
    const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      const zip_stat_t stat = stat_of(archive.get(), static_cast<zip_uint64_t>(i));
      place = fmt::format("load_npz: {}: {}", path.string(), stat.name);
      load_entry(archive.get(), stat, file_bytes, tensors);
    }
    return tensors;
  } catch (const Error& error) {
    error.rethrow_within(place);
    throw;
  }
}

void save_npz(const std::filesystem::path& path, const NamedTensors& tensors,
              const NpzOptions& options) {
  std::string place = fmt::format("save_npz: {}", path.string());
  try {
    if (tensors.empty()) return write_empty_archive(path);
    std::vector<npy::Image> images;  // Outlive the archive, which reads them when it is closed.
    images.reserve(tensors.size());
    for (const auto& [name, tensor] : tensors) {
      place = fmt::format("save_npz: {}: '{}'", path.string(), name);
      if (name.empty()) throw InvalidArgument("a tensor needs a name");
      images.emplace_back(tensor);
    }
    place = fmt::format("save_npz: {}", path.string());
    int code = 0;
    Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
    if (!archive)
      throw Unavailable(fmt::format("the file cannot be written: {}", message_of(code)));
    size_t i = 0;
    for (const auto& [name, tensor] : tensors) {
      add_entry(archive.get(), fmt::format("{}{}", name, kSuffix), images[i++], options.compress);
    }
    if (zip_close(archive.get()) != 0) throw Unavailable(zip_strerror(archive.get()));
    static_cast<void>(archive.release());  // Closed already.
  } catch (const Error& error) {
    error.rethrow_within(place);
    throw;
  }
}

}  // namespace tandem
