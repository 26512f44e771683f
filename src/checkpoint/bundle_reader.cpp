#include "checkpoint/bundle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "checkpoint/crc32c.h"
#include "checkpoint/index_table.h"
#include "checkpoint/share_out.h"
#include "tandem/error.h"

namespace tandem::checkpoint {
namespace {

// Read and checked while it is in a core's own cache.
constexpr int64_t kPieceBytes = 256 << 10;

int64_t element_count(const BundleEntry& entry) {
  int64_t count = 1;
  for (const int64_t size : entry.sizes) {
    constexpr int64_t kMost = int64_t{1} << 56;
    if (__builtin_mul_overflow(count, size, &count) || count > kMost) {
      throw DataLoss(fmt::format("{} cannot be", entry.type_str()));
    }
  }
  return count;
}

}  // namespace

/// Bytes that follow one another and have a checksum: a tensor's, or those of a slice of it.
struct BundleReader::Run {
  const BundleEntry* entry = nullptr;
  const Target* target = nullptr;
  int64_t begin = 0;  // The offset within the tensor.
};

/// A part of a run that one thread reads.
struct BundleReader::Piece {
  const Run* run = nullptr;
  int64_t offset = 0;  // The offset within the run.
  int64_t bytes = 0;
  uint32_t crc = 0;
};

BundleReader::BundleReader(std::filesystem::path prefix) : prefix_(std::move(prefix)) {
  open_files(read_index());
  for (const auto* all : {&entries_, &slices_}) {
    for (const auto& [key, entry] : *all) check_within_file(key, entry);
  }
}

int BundleReader::read_index() {
  const std::string path = index_name(prefix_.string());
  if (!std::filesystem::exists(path) &&
      std::filesystem::exists(data_name(prefix_.string(), 0, 1))) {
    throw DataLoss(
        fmt::format("{}: there is data but no index; the checkpoint was never completed", path));
  }
  const std::string bytes = read_file(path);
  std::string place = path;
  try {
    const IndexTable table = decode_index(bytes);
    const auto header = table.find("");
    if (header == table.end()) throw DataLoss("the index has no header");
    const BundleHeader decoded = decode_header(header->second);
    if (decoded.big_endian) throw Unimplemented("the checkpoint is big-endian");
    for (const auto& [key, value] : table) {
      if (key.empty()) continue;
      place = fmt::format("{}: key '{}'", path, key);
      const BundleEntry entry = decode_entry(value);
      if (entry.shard >= decoded.shards) {
        throw DataLoss(fmt::format("data file {} of {}", entry.shard, decoded.shards));
      }
      (is_slice_key(key) ? slices_ : entries_).emplace(key, entry);
    }
    return decoded.shards;
  } catch (const Error& error) {
    error.rethrow_within(place);
    throw;
  }
}

void BundleReader::open_files(int shards) {
  for (int shard = 0; shard < shards; ++shard) {
    try {
      files_.push_back(std::make_unique<OpenFile>(data_name(prefix_.string(), shard, shards)));
    } catch (const NotFound& error) {
      throw DataLoss(
          fmt::format("{}, though {} names it", error.what(), index_name(prefix_.string())));
    }
  }
}

const BundleEntry& BundleReader::entry(const std::string& key) const {
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  constexpr size_t kShown = 8;
  std::vector<std::string> known;
  for (const auto& [name, unused] : entries_) {
    if (known.size() == kShown) {
      known.emplace_back("...");
      break;
    }
    known.push_back(name);
  }
  throw NotFound(fmt::format("{}: no key '{}'; there are {}", index_name(prefix_.string()), key,
                             fmt::join(known, ", ")));
}

const OpenFile& BundleReader::file_of(const BundleEntry& entry) const {
  return *files_[static_cast<size_t>(entry.shard)];
}

std::string BundleReader::where(const std::string& key, const BundleEntry& entry) const {
  return fmt::format("{}: key '{}'", file_of(entry).path().string(), key);
}

void BundleReader::check_within_file(const std::string& key, const BundleEntry& entry) const {
  const auto end = static_cast<uint64_t>(entry.offset + entry.bytes);
  if (end <= file_of(entry).bytes()) return;
  throw DataLoss(fmt::format("{}: its {} bytes should end at {}, the file has only {}",
                             where(key, entry), entry.bytes, end, file_of(entry).bytes()));
}

std::vector<BundleReader::Run> BundleReader::runs_of(std::span<const Target> targets) const {
  std::vector<Run> runs;
  for (const Target& target : targets) {
    const BundleEntry& found = entry(target.key);
    if (found.slices.empty()) {
      runs.push_back({&found, &target, 0});
    } else {
      add_slices(target, runs);
    }
  }
  return runs;
}

void BundleReader::add_slices(const Target& target, std::vector<Run>& runs) const {
  const BundleEntry& whole = entry(target.key);
  const std::optional<DType> dtype = dtype_of_number(whole.type);
  if (!dtype) {
    throw Unimplemented(
        fmt::format("{}: slices of {}", where(target.key, whole), whole.type_str()));
  }
  const auto element = static_cast<int64_t>(size_of(*dtype));
  const int64_t all = element_count(whole);
  int64_t covered = 0;
  for (const TensorSlice& slice : whole.slices) {
    const auto found = slices_.find(slice_key(target.key, slice));
    const int64_t count = count_of(slice, whole.sizes);
    const std::optional<int64_t> first = first_element(slice, whole.sizes);
    if (found == slices_.end() || found->second.bytes != count * element) {
      throw DataLoss(fmt::format("{}: a slice of it is missing", where(target.key, whole)));
    }
    if (!first) {
      throw Unimplemented(
          fmt::format("{}: a partitioned variable, stored in slices of columns; slices of rows are "
                      "read",
                      where(target.key, whole)));
    }
    runs.push_back({&found->second, &target, *first * element});
    covered += count;
  }
  if (covered != all) {
    throw DataLoss(fmt::format("{}: its slices have {} of {} elements", where(target.key, whole),
                               covered, all));
  }
}

std::vector<BundleReader::Piece> BundleReader::cut(const std::vector<Run>& runs) {
  std::vector<Piece> pieces;
  for (const Run& run : runs) {
    for (int64_t offset = 0; offset < run.entry->bytes; offset += kPieceBytes) {
      pieces.push_back({.run = &run,
                        .offset = offset,
                        .bytes = std::min(kPieceBytes, run.entry->bytes - offset)});
    }
  }
  return pieces;
}

void BundleReader::read_piece(Piece& piece) const {
  thread_local std::vector<char> scratch;
  const Run& run = *piece.run;
  const int64_t offset = run.begin + piece.offset;
  char* to = run.target->to == nullptr ? nullptr : run.target->to + offset;
  const bool is_put = to == nullptr && run.target->put;
  if (to == nullptr) {
    scratch.resize(kPieceBytes);
    to = scratch.data();
  }
  const auto bytes = static_cast<size_t>(piece.bytes);
  file_of(*run.entry).read(to, bytes, static_cast<uint64_t>(run.entry->offset + piece.offset));
  piece.crc = crc32c(to, bytes);
  if (is_put) run.target->put(static_cast<size_t>(offset), {to, bytes});
}

void BundleReader::check(const std::vector<Run>& runs, const std::vector<Piece>& pieces) const {
  auto piece = pieces.begin();
  for (const Run& run : runs) {
    uint32_t crc = 0;
    for (int64_t read = 0; read < run.entry->bytes; read += piece->bytes, ++piece) {
      crc = combine_crc32c(crc, piece->crc, static_cast<size_t>(piece->bytes));
    }
    if (mask_crc32c(crc) != run.entry->masked_crc) {
      throw DataLoss(
          fmt::format("{}: the checksum of its {} bytes at {} does not match; the file was damaged "
                      "after it was "
                      "written, restore another checkpoint",
                      where(run.target->key, *run.entry), run.entry->bytes, run.entry->offset));
    }
  }
}

void BundleReader::read(std::span<const Target> targets) const {
  const std::vector<Run> runs = runs_of(targets);
  std::vector<Piece> pieces = cut(runs);
  share_out(pieces.size(), std::thread::hardware_concurrency(),
            [&](size_t i) { read_piece(pieces[i]); });
  check(runs, pieces);
}

std::string BundleReader::read_string(const std::string& key) const {
  const BundleEntry& found = entry(key);
  if (found.type != kStringType || !found.sizes.empty()) {
    throw InvalidArgument(
        fmt::format("{}: {} is not a scalar string", where(key, found), found.type_str()));
  }
  std::string stored(static_cast<size_t>(found.bytes), '\0');
  file_of(found).read(stored.data(), stored.size(), static_cast<uint64_t>(found.offset));
  try {
    return load_string(stored, found.masked_crc);
  } catch (const Error& error) {
    error.rethrow_within(where(key, found));
    throw;
  }
}

}  // namespace tandem::checkpoint
