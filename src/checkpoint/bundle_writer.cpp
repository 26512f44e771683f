#include "checkpoint/bundle_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "checkpoint/crc32c.h"
#include "checkpoint/files.h"
#include "checkpoint/index_table.h"
#include "checkpoint/process_files.h"
#include "tandem/error.h"

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

BundleWriter::BundleWriter(std::shared_ptr<Keepers> keepers, std::shared_ptr<op::Group> group)
    : keepers_(std::move(keepers)), group_(std::move(group)) {}

void BundleWriter::add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes,
                       int writer) {
  const auto sizes = shape.sizes();
  items_.push_back({.key = key,
                    .type = type_number(dtype),
                    .sizes = {sizes.begin(), sizes.end()},
                    .bytes = std::move(bytes),
                    .stored = {},
                    .size = shape.total_extent() * static_cast<int64_t>(size_of(dtype)),
                    .writer = writer,
                    .elements = {}});
}

void BundleWriter::add(const std::string& key, DType dtype, const Shape& shape, ByteRun bytes,
                       std::vector<KeptElements> elements) {
  add(key, dtype, shape, std::move(bytes));
  items_.back().elements = std::move(elements);
}

void BundleWriter::add_string(const std::string& key, std::string_view value) {
  StoredString stored = store_string(value);
  const auto size = static_cast<int64_t>(stored.bytes.size());
  items_.push_back({.key = key,
                    .type = kStringType,
                    .sizes = {},
                    .bytes = ByteRun({}),
                    .stored = std::move(stored.bytes),
                    .crc = stored.crc,
                    .size = size,
                    .elements = {}});
}

int BundleWriter::count_files() const {
  if (group_) return group_->size();
  return 1 + (keepers_ ? keepers_->count() : 0);
}

std::vector<BundleWriter::File> BundleWriter::lay_out(const std::filesystem::path& prefix) const {
  const int count = count_files();
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
    files[static_cast<size_t>(item.writer)].runs.push_back(
        {.item = &item,
         .slice = {},
         .kept = {},
         .bytes = is_text ? ByteRun(std::span<const char>(item.stored)) : item.bytes,
         .size = item.size});
    return;
  }
  const size_t element = size_of(*dtype_of_number(item.type));
  for (const KeptElements& part : item.elements) {
    std::vector<Run>& runs = files[static_cast<size_t>(part.keeper) + 1].runs;
    const auto begin = static_cast<size_t>(part.begin) * element;
    const auto bytes = static_cast<size_t>(part.count) * element;
    if (bytes == item.bytes.size()) {
      runs.push_back({&item, {}, {part.place, 0, bytes}, item.bytes, item.size});
      continue;
    }
    size_t at = 0;
    for (TensorSlice& slice : slices_of(item.sizes, part.begin, part.begin + part.count)) {
      const size_t length = static_cast<size_t>(count_of(slice, item.sizes)) * element;
      runs.push_back({&item,
                      std::move(slice),
                      {part.place, at, length},
                      item.bytes.part(begin + at, length),
                      static_cast<int64_t>(length)});
      at += length;
    }
  }
}

/// All hear all checksums; the first process puts them into the index.
void BundleWriter::exchange_checksums(std::vector<File>& files) const {
  std::vector<uint32_t> own;
  for (const Run& run : files[static_cast<size_t>(rank())].runs) own.push_back(run.crc);
  const auto texts =
      group_->gather_texts("save: checksums", fmt::format("{}", fmt::join(own, " ")));
  for (size_t i = 0; i < files.size(); ++i) {
    std::istringstream numbers(texts[i]);
    for (Run& run : files[i].runs) {
      if (numbers >> run.crc) continue;
      throw DataLoss(fmt::format("save: {} says '{}' of the checksums of its {} values",
                                 group_->describe(static_cast<int>(i)), texts[i],
                                 files[i].runs.size()));
    }
  }
}

/// Those of which the files cannot be seen here have them written by this process.
void BundleWriter::have_keepers_write(std::vector<File>& files) {
  if (!keepers_) return;
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
                        .bytes = run.size,
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

/// The other processes of a group rename theirs.
void BundleWriter::rename_data(std::vector<File>& files) const {
  for (File& file : files) {
    if (file.made) {
      file.made->rename();
    } else if (!group_) {
      rename_partial(file.path);
    }
  }
}

/// Does something that all have done when it returns.
template <class Act>
void BundleWriter::act(const char* what, const Act& act) const {
  if (group_) {
    act_together(*group_, what, act);
  } else {
    act();
  }
}

void BundleWriter::write(const std::filesystem::path& prefix) {
  const std::filesystem::path folder = prefix.parent_path();
  const std::filesystem::path index_path = index_name(prefix.string());
  const bool leads = rank() == 0;
  make_folder(folder);
  std::vector<File> files = lay_out(prefix);
  act("save: the data", [&] { write_here(files[static_cast<size_t>(rank())]); });
  if (group_) exchange_checksums(files);
  have_keepers_write(files);
  std::optional<NewFile> index_file;
  act("save: the index", [&] {
    if (!leads) return;
    index_file.emplace(index_path);
    write_small(*index_file, index(files));
    // An index never stands beside data that it does not describe.
    if (remove_file(index_path)) {
      sync_folder(folder);
      remove_other_data(prefix, files.size());
    }
  });
  act("save: the names", [&] {
    rename_data(files);
    sync_folder(folder);
  });
  act("save: the last name", [&] {
    if (!leads) return;
    index_file->rename();
    sync_folder(folder);
  });
  if (keepers_) keepers_->note_complete();
}

}  // namespace tandem::checkpoint
