/// The part of a checkpoint that a parameter server writes and restores itself: elements of
/// variables and slots, and with them the updates that these have, so that after a restart, too,
/// each is made once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/keepers.h"
#include "distribute/range/range_server.h"

namespace tandem::distribute {

/// Some of a server's state in a data file, one after another.
struct ShardRun {
  checkpoint::KeptBytes bytes{};  ///< The place is that in RangeServer::state().
  uint32_t crc = 0;
};

struct ServerShard {
  std::filesystem::path path{};
  std::vector<ShardRun> runs{};
  uint64_t notes_bytes = 0;
  uint32_t notes_crc = 0;
};

/// What a server knows of its updates, as a text.
std::string text_of(const RangeServer::Notes& notes);
/// Throws DataLoss.
RangeServer::Notes parse_notes(const std::string& text);

/// Writes the file under its name with kPartialSuffix, at one time: nothing is updated meanwhile.
ServerShard write_shard(RangeServer& server, const checkpoint::KeeperFile& file);

/// Takes the values and the ledger that are in the file. Throws NotFound where there is none,
/// DataLoss where it is damaged, and then nothing has changed.
RangeServer::Notes restore_shard(RangeServer& server, const ServerShard& shard);

}  // namespace tandem::distribute
