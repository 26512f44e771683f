/// The index file of a checkpoint: a LevelDB table, that is strings by string, in order.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace tandem::checkpoint {

using IndexTable = std::map<std::string, std::string>;

/// The bytes of the file.
std::string encode_index(const IndexTable& table);

/// Throws DataLoss when the bytes are no table, or a checksum is wrong.
IndexTable decode_index(std::string_view file);

}  // namespace tandem::checkpoint
