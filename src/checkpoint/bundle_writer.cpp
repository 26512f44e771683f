#include "checkpoint/bundle_writer.h"

#include <thread>

#include "checkpoint/bundle_format.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/files.h"
#include "checkpoint/index_table.h"

namespace tandem::checkpoint {

void BundleWriter::add(const std::string& key, DType dtype, const Shape& shape,
                       std::span<const char> bytes) {
  const auto sizes = shape.sizes();
  items_.push_back({key, type_number(dtype), {sizes.begin(), sizes.end()}, bytes, {}, 0});
}

void BundleWriter::add_string(const std::string& key, std::string_view value) {
  StoredString stored = store_string(value);
  items_.push_back({key, kStringType, {}, {}, std::move(stored.bytes), stored.crc});
}

void BundleWriter::add_checksums() {
  for (Item& item : items_) {
    if (item.type != kStringType) item.crc = crc32c(item.bytes.data(), item.bytes.size());
  }
}

std::string BundleWriter::index() const {
  IndexTable table{{"", encode(BundleHeader{})}};
  int64_t offset = 0;
  for (const Item& item : items_) {
    const auto bytes = static_cast<int64_t>(item.bytes.size() + item.stored.size());
    table[item.key] = encode(BundleEntry{.type = item.type,
                                         .sizes = item.sizes,
                                         .offset = offset,
                                         .bytes = bytes,
                                         .masked_crc = mask_crc32c(item.crc)});
    offset += bytes;
  }
  return encode_index(table);
}

void BundleWriter::write(const std::filesystem::path& prefix) {
  const std::filesystem::path folder = prefix.parent_path();
  make_folder(folder);
  NewFile data(data_name(prefix.string(), 0, 1));
  uint64_t bytes = 0;
  for (const Item& item : items_) bytes += item.bytes.size() + item.stored.size();
  data.reserve(bytes);
  {
    const std::jthread checksums([this] { add_checksums(); });
    for (const Item& item : items_) {
      data.write(item.bytes.data(), item.bytes.size());
      data.write(item.stored.data(), item.stored.size());
    }
    data.sync();
  }
  NewFile index_file(index_name(prefix.string()));
  const std::string table = index();
  index_file.write(table.data(), table.size());
  index_file.sync();
  // An index never stands beside data that it does not describe.
  if (remove_file(index_name(prefix.string()))) sync_folder(folder);
  data.rename();
  sync_folder(folder);
  index_file.rename();
  sync_folder(folder);
}

}  // namespace tandem::checkpoint
