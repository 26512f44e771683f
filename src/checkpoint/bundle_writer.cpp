#include "checkpoint/bundle_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <sstream>

#include "checkpoint/bundle_format.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/files.h"
#include "checkpoint/index_table.h"
#include "checkpoint/process_files.h"

namespace tandem::checkpoint {

void BundleWriter::add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes,
                       int writer) {
  const auto sizes = shape.sizes();
  const auto size = shape.total_extent() * static_cast<int64_t>(size_of(dtype));
  items_.push_back({key,
                    type_number(dtype),
                    {sizes.begin(), sizes.end()},
                    std::move(bytes),
                    {},
                    0,
                    writer,
                    size});
}

void BundleWriter::add_string(const std::string& key, std::string_view value) {
  StoredString stored = store_string(value);
  const auto size = static_cast<int64_t>(stored.bytes.size());
  items_.push_back(
      {key, kStringType, {}, ByteRun({}), std::move(stored.bytes), stored.crc, 0, size});
}

std::vector<ByteRun> BundleWriter::runs() const {
  std::vector<ByteRun> own;
  for (const Item& item : items_) {
    if (!writes(item.writer)) continue;
    own.push_back(item.type == kStringType ? ByteRun(std::span<const char>(item.stored))
                                           : item.bytes);
  }
  return own;
}

void BundleWriter::add_checksums(int writer, const std::vector<uint32_t>& crcs) {
  size_t next = 0;
  for (Item& item : items_) {
    if (item.writer != writer) continue;
    if (item.type != kStringType) item.crc = crcs[next];
    ++next;
  }
}

/// All hear all checksums; the first process puts them into the index.
void BundleWriter::exchange_checksums() {
  std::vector<uint32_t> own;
  for (const Item& item : items_) {
    if (writes(item.writer)) own.push_back(item.crc);
  }
  const auto texts =
      group_->gather_texts("save: checksums", fmt::format("{}", fmt::join(own, " ")));
  for (int writer = 0; writer < writers(); ++writer) {
    std::istringstream numbers(texts[static_cast<size_t>(writer)]);
    std::vector<uint32_t> crcs;
    for (uint32_t crc = 0; numbers >> crc;) crcs.push_back(crc);
    if (!writes(writer)) add_checksums(writer, crcs);
  }
}

std::string BundleWriter::index() const {
  IndexTable table{{"", encode(BundleHeader{.shards = writers()})}};
  std::vector<int64_t> offsets(static_cast<size_t>(writers()), 0);
  for (const Item& item : items_) {
    int64_t& offset = offsets[static_cast<size_t>(item.writer)];
    table[item.key] = encode(BundleEntry{.type = item.type,
                                         .sizes = item.sizes,
                                         .shard = item.writer,
                                         .offset = offset,
                                         .bytes = item.size,
                                         .masked_crc = mask_crc32c(item.crc)});
    offset += item.size;
  }
  return encode_index(table);
}

/// A checkpoint of this name that another number of processes wrote had files of other names.
void BundleWriter::remove_others_data(const std::filesystem::path& prefix) const {
  const std::string data = prefix.filename().string() + ".data-";
  const std::string own = fmt::format("-of-{:05}", writers());
  const auto folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with(data) && !name.ends_with(own)) remove_file(file.path());
  }
}

/// Does something that all have done when it returns.
template <class Act>
void BundleWriter::act(const char* what, const Act& act) {
  if (group_) {
    act_together(*group_, what, act);
  } else {
    act();
  }
}

void BundleWriter::write(const std::filesystem::path& prefix) {
  const std::filesystem::path folder = prefix.parent_path();
  const bool leads = rank() == 0;
  make_folder(folder);
  NewFile data(data_name(prefix.string(), rank(), writers()));
  act("save: the data", [&] { add_checksums(rank(), write_runs(data, runs())); });
  if (group_) exchange_checksums();
  std::optional<NewFile> index_file;
  act("save: the index", [&] {
    if (!leads) return;
    index_file.emplace(index_name(prefix.string()));
    write_small(*index_file, index());
    // An index never stands beside data that it does not describe.
    if (remove_file(index_name(prefix.string()))) sync_folder(folder);
  });
  act("save: the names", [&] {
    data.rename();
    sync_folder(folder);
  });
  act("save: the last name", [&] {
    if (!leads) return;
    index_file->rename();
    remove_others_data(prefix);
    sync_folder(folder);
  });
}

}  // namespace tandem::checkpoint
