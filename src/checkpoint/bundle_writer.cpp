#include "checkpoint/bundle_writer.h"

#include <fmt/format.h>

#include "checkpoint/crc32c.h"
#include "checkpoint/files.h"
#include "checkpoint/index_table.h"

namespace tandem::checkpoint {
namespace {

/// The data of a checkpoint of the same name that had another number of files.
void remove_other_data(const std::filesystem::path& prefix, size_t files) {
  const std::string beginning = prefix.filename().string() + ".data-";
  const std::string end = fmt::format("-of-{:05}", files);
  const auto folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  std::error_code ignored;
  std::vector<std::filesystem::path> others;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_new = name.ends_with(kPartialSuffix);
    if (name.starts_with(beginning) && !name.ends_with(end) && !is_new) {
      others.push_back(entry.path());
    }
  }
  for (const auto& other : others) remove_file(other);
}

}  // namespace

std::string notes_key(int keeper) { return fmt::format("_KEEPERS/{}/notes", keeper); }

BundleWriter::BundleWriter(std::shared_ptr<Keepers> keepers) : keepers_(std::move(keepers)) {}

void BundleWriter::add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes,
                       std::vector<KeptElements> elements) {
  const auto sizes = shape.sizes();
  items_.push_back({key,
                    type_number(dtype),
                    {sizes.begin(), sizes.end()},
                    std::move(bytes),
                    {},
                    0,
                    std::move(elements)});
}

void BundleWriter::add_string(const std::string& key, std::string_view value) {
  StoredString stored = store_string(value);
  items_.push_back({key, kStringType, {}, ByteRun({}), std::move(stored.bytes), stored.crc, {}});
}

std::vector<BundleWriter::File> BundleWriter::lay_out(const std::filesystem::path& prefix) const {
  const int count = 1 + (keepers_ ? keepers_->count() : 0);
  std::vector<File> files(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    files[static_cast<size_t>(i)].path = data_name(prefix.string(), i, count);
  }
  for (const Item& item : items_) add_runs(item, files);
  return files;
}

void BundleWriter::add_runs(const Item& item, std::vector<File>& files) const {
  if (item.elements.empty()) {
    const bool is_text = item.type == kStringType;
    files[0].runs.push_back(
        {.item = &item,
         .slice = {},
         .kept = {},
         .bytes = is_text ? ByteRun(std::span<const char>(item.stored)) : item.bytes});
    return;
  }
  const size_t element = size_of(*dtype_of_number(item.type));
  for (const KeptElements& part : item.elements) {
    std::vector<Run>& runs = files[static_cast<size_t>(part.keeper) + 1].runs;
    const auto begin = static_cast<size_t>(part.begin) * element;
    const auto bytes = static_cast<size_t>(part.count) * element;
    if (bytes == item.bytes.size()) {
      runs.push_back({&item, {}, {part.place, 0, bytes}, item.bytes});
      continue;
    }
    size_t at = 0;
    for (TensorSlice& slice : slices_of(item.sizes, part.begin, part.begin + part.count)) {
      const size_t length = static_cast<size_t>(count_of(slice, item.sizes)) * element;
      runs.push_back(
          {&item, std::move(slice), {part.place, at, length}, item.bytes.part(begin + at, length)});
      at += length;
    }
  }
}

/// Those of which the files cannot be seen here have them written by this process.
void BundleWriter::have_keepers_write(std::vector<File>& files) {
  std::vector<KeeperFile> asked;
  for (size_t i = 1; i < files.size(); ++i) {
    KeeperFile& file = asked.emplace_back(KeeperFile{files[i].path, {}});
    for (const Run& run : files[i].runs) file.runs.push_back(run.kept);
  }
  if (asked.empty()) return;
  const auto written = keepers_->write_files(asked);
  for (size_t i = 1; i < files.size(); ++i) {
    if (!written[i - 1]) {
      StoredString notes = store_string(keepers_->notes_of(static_cast<int>(i) - 1));
      files[i].notes_bytes = notes.bytes.size();
      files[i].notes_crc = notes.crc;
      files[i].notes = std::move(notes.bytes);
      write_here(files[i]);
      continue;
    }
    files[i].notes_bytes = written[i - 1]->notes_bytes;
    files[i].notes_crc = written[i - 1]->notes_crc;
    for (size_t r = 0; r < files[i].runs.size(); ++r) {
      files[i].runs[r].crc = written[i - 1]->crcs[r];
    }
  }
}

void BundleWriter::write_here(File& file) {
  file.made = std::make_unique<NewFile>(file.path);
  std::vector<ByteRun> bytes;
  for (const Run& run : file.runs) bytes.push_back(run.bytes);
  if (!file.notes.empty()) bytes.emplace_back(std::span<const char>(file.notes));
  const std::vector<uint32_t> crcs = write_runs(*file.made, bytes);
  for (size_t i = 0; i < file.runs.size(); ++i) {
    Run& run = file.runs[i];
    run.crc = run.item->type == kStringType ? run.item->crc : crcs[i];
  }
}

std::string BundleWriter::index(const std::vector<File>& files) const {
  IndexTable table{{"", encode(BundleHeader{.shards = static_cast<int>(files.size())})}};
  std::map<std::string, BundleEntry> sliced;
  for (size_t i = 0; i < files.size(); ++i) {
    const int shard = static_cast<int>(i);
    int64_t offset = 0;
    for (const Run& run : files[i].runs) {
      const Item& item = *run.item;
      BundleEntry entry{.type = item.type,
                        .sizes = run.slice ? run.slice->lengths : item.sizes,
                        .shard = shard,
                        .offset = offset,
                        .bytes = static_cast<int64_t>(run.bytes.size()),
                        .masked_crc = mask_crc32c(run.crc)};
      offset += entry.bytes;
      table[run.slice ? slice_key(item.key, *run.slice) : item.key] = encode(entry);
      if (!run.slice) continue;
      BundleEntry& whole = sliced[item.key];
      whole.type = item.type;
      whole.sizes = item.sizes;
      whole.slices.push_back(*run.slice);
    }
    if (files[i].notes_bytes == 0) continue;
    table[notes_key(shard - 1)] =
        encode(BundleEntry{.type = kStringType,
                           .sizes = {},
                           .shard = shard,
                           .offset = offset,
                           .bytes = static_cast<int64_t>(files[i].notes_bytes),
                           .masked_crc = mask_crc32c(files[i].notes_crc)});
  }
  for (const auto& [key, entry] : sliced) table[key] = encode(entry);
  return encode_index(table);
}

void BundleWriter::write(const std::filesystem::path& prefix) {
  const std::filesystem::path folder = prefix.parent_path();
  make_folder(folder);
  std::vector<File> files = lay_out(prefix);
  write_here(files[0]);
  have_keepers_write(files);
  NewFile index_file(index_name(prefix.string()));
  write_small(index_file, index(files));
  // An index never stands beside data that it does not describe.
  if (remove_file(index_name(prefix.string()))) {
    sync_folder(folder);
    remove_other_data(prefix, files.size());
  }
  for (File& file : files) file.made ? file.made->rename() : rename_partial(file.path);
  sync_folder(folder);
  index_file.rename();
  sync_folder(folder);
  if (keepers_) keepers_->note_complete();
}

}  // namespace tandem::checkpoint
