/// A variable's bytes as the host sees them.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/run_writer.h"
#include "tandem/variable.h"

namespace tandem::checkpoint {

/// The value for reading: the variable's own memory where each replica has the same, else a copy.
class VariableImage {
 public:
  explicit VariableImage(const Variable& variable);

  const ByteRun& run() const { return run_; }

 private:
  std::vector<char> copy_;
  ByteRun run_{std::span<const char>()};
};

/// The value for writing. Where the variable's only memory is the host's own, data() is that, and
/// else null: then its bytes are put, in any order and by any thread, to each of its devices. With
/// a value for each replica they are kept aside until the end.
class VariableTarget {
 public:
  explicit VariableTarget(const Variable& variable);

  char* data() { return data_; }
  void put(size_t offset, std::span<char> bytes);
  void finish();

 private:
  Variable variable_;
  std::vector<char> aside_;
  char* data_ = nullptr;
};

}  // namespace tandem::checkpoint
