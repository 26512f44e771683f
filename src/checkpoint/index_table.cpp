#include "checkpoint/index_table.h"

#include <fmt/format.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>

#include <memory>
#include <new>

#include "checkpoint/wire.h"
#include "tandem/error.h"

namespace tandem::checkpoint {
namespace {

class StringSink final : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }

  std::string bytes;
};

class StringSource final : public leveldb::RandomAccessFile {
 public:
  explicit StringSource(std::string_view bytes) : bytes_(bytes) {}

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result, char*) const override {
    const std::string_view part = offset < bytes_.size() ? bytes_.substr(offset, n) : "";
    *result = leveldb::Slice(part.data(), part.size());
    return leveldb::Status::OK();
  }

 private:
  std::string_view bytes_;
};

void check(const leveldb::Status& status) {
  if (!status.ok()) throw DataLoss(fmt::format("the index is damaged: {}", status.ToString()));
}

/// The end of the file names two blocks without a checksum of its own, and LevelDB allocates what
/// they ask for.
void check_footer(std::string_view file) {
  constexpr size_t kFooterBytes = 48;
  constexpr size_t kBlockTrailerBytes = 5;
  if (file.size() < kFooterBytes) {
    throw DataLoss(fmt::format("the index has {} bytes, at least {} were expected", file.size(),
                               kFooterBytes));
  }
  const uint64_t blocks_end = file.size() - kFooterBytes;
  std::string_view footer = file.substr(blocks_end);
  for (int block = 0; block < 2; ++block) {
    const uint64_t offset = take_varint(footer);
    const uint64_t bytes = take_varint(footer);
    if (offset > blocks_end || bytes > blocks_end - offset ||
        blocks_end - offset - bytes < kBlockTrailerBytes) {
      throw DataLoss(fmt::format("the index is damaged: a block of {} bytes at {} in a file of {}",
                                 bytes, offset, file.size()));
    }
  }
}

IndexTable decode_checked(std::string_view file) {
  leveldb::Options options;
  options.paranoid_checks = true;
  StringSource source(file);
  leveldb::Table* opened = nullptr;
  check(leveldb::Table::Open(options, &source, file.size(), &opened));
  const std::unique_ptr<leveldb::Table> table(opened);
  leveldb::ReadOptions read;
  read.verify_checksums = true;
  read.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> at(table->NewIterator(read));
  IndexTable entries;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    if (!entries.emplace(at->key().ToString(), at->value().ToString()).second) {
      throw DataLoss(fmt::format("the index has the key '{}' twice", at->key().ToString()));
    }
  }
  check(at->status());
  return entries;
}

}  // namespace

std::string encode_index(const IndexTable& table) {
  leveldb::Options options;
  options.compression = leveldb::kNoCompression;
  StringSink sink;
  leveldb::TableBuilder builder(options, &sink);
  for (const auto& [key, value] : table) builder.Add(key, value);
  check(builder.Finish());
  return std::move(sink.bytes);
}

IndexTable decode_index(std::string_view file) {
  check_footer(file);
  try {
    return decode_checked(file);
  } catch (const std::bad_alloc&) {
    throw DataLoss("the index is damaged: it names a block larger than memory");
  }
}

}  // namespace tandem::checkpoint
