/// What the index of a checkpoint holds, in TensorFlow's "tensor bundle" format: under the empty
/// key a header, under each other key where a tensor's bytes lie and what they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_slice.h"
#include "tandem/dtype.h"
#include "tandem/shape.h"

namespace tandem::checkpoint {

/// Element types by their numbers in the format.
constexpr int kStringType = 7;
int type_number(DType dtype);
/// The dtype of a type's number; none for types that tensors do not have here, such as strings.
std::optional<DType> dtype_of_number(int type);
/// "float32", "string", "type 8".
std::string type_name(int type);

struct BundleHeader {
  int shards = 1;
  bool big_endian = false;
};

std::string encode(const BundleHeader& header);
BundleHeader decode_header(std::string_view bytes);

struct BundleEntry {
  int type = 0;
  std::vector<int64_t> sizes;
  int shard = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t masked_crc = 0;
  std::vector<TensorSlice>
      slices{};  ///< Each is stored under a key of its own; none: the whole is.

  /// Throws Unimplemented when there are more axes than a Shape has.
  Shape shape() const;
  /// "float32[2,3]", "string[]".
  std::string type_str() const;
};

std::string encode(const BundleEntry& entry);
/// Throws DataLoss, also when sizes and bytes do not agree.
BundleEntry decode_entry(std::string_view bytes);

/// The stored form of a scalar string, and its checksum (which is not that of the stored form).
struct StoredString {
  std::string bytes;
  uint32_t crc = 0;
};
StoredString store_string(std::string_view value);
/// Throws DataLoss when the length or a checksum is wrong.
std::string load_string(std::string_view stored, uint32_t masked_crc);

/// "ckpt-1" -> "ckpt-1.index", "ckpt-1.data-00000-of-00001".
std::string index_name(const std::string& prefix);
std::string data_name(const std::string& prefix, int shard, int shards);

}  // namespace tandem::checkpoint
