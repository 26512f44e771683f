#include "checkpoint/bundle_writer.h"

#include "checkpoint/bundle_format.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/files.h"
#include "checkpoint/index_table.h"

namespace tandem::checkpoint {

void BundleWriter::add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes) {
  const auto sizes = shape.sizes();
  items_.push_back(
      {key, type_number(dtype), {sizes.begin(), sizes.end()}, std::move(bytes), {}, 0});
}

void BundleWriter::add_string(const std::string& key, std::string_view value) {
  StoredString stored = store_string(value);
  items_.push_back({key, kStringType, {}, ByteRun({}), std::move(stored.bytes), stored.crc});
}

std::vector<ByteRun> BundleWriter::runs() const {
  std::vector<ByteRun> all;
  for (const Item& item : items_) {
    all.push_back(item.type == kStringType ? ByteRun(std::span<const char>(item.stored))
                                           : item.bytes);
  }
  return all;
}

void BundleWriter::add_checksums(const std::vector<uint32_t>& crcs) {
  for (size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].type != kStringType) items_[i].crc = crcs[i];
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
  add_checksums(write_runs(data, runs()));
  NewFile index_file(index_name(prefix.string()));
  write_small(index_file, index());
  // An index never stands beside data that it does not describe.
  if (remove_file(index_name(prefix.string()))) sync_folder(folder);
  data.rename();
  sync_folder(folder);
  index_file.rename();
  sync_folder(folder);
}

}  // namespace tandem::checkpoint
