/// An array in NumPy's format, wherever its bytes come from: a file, or an entry of an archive.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/tensor.h"

namespace tandem::npy {

/// Bytes that are read once, from the first to the last.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// How many are left at most. Nothing larger is allocated, so it must not be a mere claim.
  virtual uint64_t remaining() const = 0;

  /// Exactly `bytes` of them. Throws DataLoss when there are not so many.
  virtual void read(void* to, size_t bytes) = 0;
};

/// The array that is all of `source`, on the host. Throws DataLoss and Unimplemented, without the
/// name of the file.
Tensor read_array(ByteSource& source);

/// A tensor as it is written: a header, and the elements in host memory.
class Image {
 public:
  explicit Image(const Tensor& tensor);

  std::span<const char> header() const { return header_; }
  std::span<const char> elements() const { return elements_; }

 private:
  Tensor tensor_;
  std::string header_;
  std::vector<char> copy_;  ///< A copy, where the device's memory cannot be read in place.
  std::span<const char> elements_;
};

}  // namespace tandem::npy
