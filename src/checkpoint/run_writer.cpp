#include "checkpoint/run_writer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "checkpoint/crc32c.h"
#include "checkpoint/share_out.h"
#include "device/transfer.h"

namespace tandem::checkpoint {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
// One gathers while two wait for the disk.
constexpr size_t kThreads = 3;

/// A part of a run that lies in one chunk of the file.
struct WrittenPiece {
  size_t run = 0;
  size_t bytes = 0;
  uint32_t crc = 0;
};

class Chunks {
 public:
  explicit Chunks(std::span<const ByteRun> runs) : runs_(runs) {
    for (const ByteRun& run : runs) {
      starts_.push_back(bytes_);
      bytes_ += run.size();
    }
    pieces_.resize((bytes_ + kChunkBytes - 1) / kChunkBytes);
  }

  uint64_t bytes() const { return bytes_; }
  size_t count() const { return pieces_.size(); }

  /// Copies a chunk's bytes together, and makes their checksums while they are in the cache.
  size_t gather(size_t chunk, char* to) {
    const uint64_t begin = chunk * kChunkBytes;
    const uint64_t end = std::min<uint64_t>(begin + kChunkBytes, bytes_);
    auto run = static_cast<size_t>(std::ranges::upper_bound(starts_, begin) - starts_.begin() - 1);
    for (uint64_t at = begin; at < end; ++run) {
      const size_t within = at - starts_[run];
      const size_t bytes = std::min<uint64_t>(runs_[run].size() - within, end - at);
      if (bytes == 0) continue;
      char* place = to + (at - begin);
      runs_[run].copy(within, bytes, place);
      pieces_[chunk].push_back({run, bytes, crc32c(place, bytes)});
      at += bytes;
    }
    return end - begin;
  }

  std::vector<uint32_t> checksums() const {
    std::vector<uint32_t> crcs(runs_.size());
    for (const auto& chunk : pieces_) {
      for (const WrittenPiece& piece : chunk) {
        crcs[piece.run] = combine_crc32c(crcs[piece.run], piece.crc, piece.bytes);
      }
    }
    return crcs;
  }

 private:
  const std::span<const ByteRun> runs_;
  std::vector<uint64_t> starts_;
  std::vector<std::vector<WrittenPiece>> pieces_;  // The pieces of each chunk.
  uint64_t bytes_ = 0;
};

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

/// Memory for one chunk, for the thread that asks; freed with the thread.
char* chunk_memory() {
  thread_local const std::unique_ptr<char, Free> memory(
      static_cast<char*>(std::aligned_alloc(NewFile::kAlignment, kChunkBytes)));
  if (!memory) throw std::bad_alloc();
  return memory.get();
}

}  // namespace

void ByteRun::copy(size_t begin, size_t bytes, char* to) const {
  if (!device_) {
    std::memcpy(to, data_ + begin, bytes);
    return;
  }
  devices::read_in_chunks(*device_, data_ + begin, bytes, [&](const char* chunk, size_t size) {
    std::memcpy(to, chunk, size);
    to += size;
  });
}

std::vector<uint32_t> write_runs(NewFile& file, std::span<const ByteRun> runs) {
  Chunks chunks(runs);
  file.reserve(chunks.bytes());
  share_out(chunks.count(), kThreads, [&](size_t chunk) {
    char* memory = chunk_memory();
    const size_t bytes = chunks.gather(chunk, memory);
    const size_t padded =
        (bytes + NewFile::kAlignment - 1) / NewFile::kAlignment * NewFile::kAlignment;
    std::memset(memory + bytes, 0, padded - bytes);
    file.write_at(memory, padded, chunk * kChunkBytes);
  });
  file.finish(chunks.bytes());
  return chunks.checksums();
}

}  // namespace tandem::checkpoint
