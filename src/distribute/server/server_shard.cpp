#include "distribute/server/server_shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "checkpoint/bundle_format.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/files.h"
#include "checkpoint/run_writer.h"
#include "tandem/error.h"

namespace tandem::distribute {
namespace {

/// Where some bytes of a server's state are. Throws DataLoss where it has none there.
char* address_of(const RangeServer& server, const checkpoint::KeptBytes& bytes) {
  if (bytes.place >= server.state().size()) throw DataLoss("a server has no such part");
  const StoreRange& range = server.state()[bytes.place];
  const size_t all = ServerState::bytes_of(range);
  if (bytes.offset > all || bytes.count > all - bytes.offset) {
    throw DataLoss(fmt::format("{} has {} bytes", range.name(), all));
  }
  return static_cast<char*>(ServerState::address_of(range)) + bytes.offset;
}

}  // namespace

std::string text_of(const RangeServer::Notes& notes) {
  return fmt::format("{}\n{} {}\n", notes.ledger, notes.steps.size(), fmt::join(notes.steps, " "));
}

RangeServer::Notes parse_notes(const std::string& text) {
  RangeServer::Notes notes;
  std::istringstream in(text);
  size_t count = 0;
  bool is_sound = std::getline(in, notes.ledger) && static_cast<bool>(in >> count);
  for (int64_t step = 0; is_sound && notes.steps.size() < count;) {
    is_sound = static_cast<bool>(in >> step);
    notes.steps.push_back(step);
  }
  if (!is_sound) throw DataLoss(fmt::format("parameter server: '{}' are no notes of one", text));
  return notes;
}

ServerShard write_shard(RangeServer& server, const checkpoint::KeeperFile& file) {
  checkpoint::make_folder(file.path.parent_path());
  checkpoint::NewFile data(file.path);
  const std::unique_lock lock = server.lock();
  const checkpoint::StoredString stored = checkpoint::store_string(text_of(server.notes(lock)));
  std::vector<checkpoint::ByteRun> bytes;
  for (const checkpoint::KeptBytes& run : file.runs) {
    bytes.emplace_back(std::span<const char>(address_of(server, run), run.count));
  }
  bytes.emplace_back(std::span<const char>(stored.bytes));
  const std::vector<uint32_t> crcs = checkpoint::write_runs(data, bytes);
  data.leave();
  ServerShard shard{.path = file.path, .notes_bytes = stored.bytes.size(), .notes_crc = stored.crc};
  for (size_t i = 0; i < file.runs.size(); ++i) shard.runs.push_back({file.runs[i], crcs[i]});
  return shard;
}

RangeServer::Notes restore_shard(RangeServer& server, const ServerShard& shard) {
  const checkpoint::OpenFile file(shard.path);
  uint64_t offset = 0;
  // Twice: what is damaged is found before anything has changed.
  std::vector<char> chunk;
  for (const ShardRun& run : shard.runs) {
    address_of(server, run.bytes);
    uint32_t crc = 0;
    for (uint64_t at = 0; at < run.bytes.count; at += chunk.size()) {
      constexpr uint64_t kChunk = uint64_t{1} << 20;
      chunk.resize(std::min(kChunk, run.bytes.count - at));
      file.read(chunk.data(), chunk.size(), offset + at);
      crc = checkpoint::extend_crc32c(crc, chunk.data(), chunk.size());
    }
    if (crc != run.crc) {
      throw DataLoss(fmt::format("{}: the checksum of its {} bytes at {} does not match",
                                 shard.path.string(), run.bytes.count, offset));
    }
    offset += run.bytes.count;
  }
  std::string stored(shard.notes_bytes, '\0');
  file.read(stored.data(), stored.size(), offset);
  RangeServer::Notes notes =
      parse_notes(checkpoint::load_string(stored, checkpoint::mask_crc32c(shard.notes_crc)));
  offset = 0;
  {
    const std::unique_lock lock = server.lock();
    for (const ShardRun& run : shard.runs) {
      server.state()[run.bytes.place].block->settle_loans();
      file.read(address_of(server, run.bytes), run.bytes.count, offset);
      offset += run.bytes.count;
    }
  }
  server.restore_ledger(notes.ledger);
  server.set_steps(notes.steps);
  return notes;
}

}  // namespace tandem::distribute
