/// The copies between devices: counted, and where an op's inputs are copied, allowed or not.
#pragma once

#include <string>

#include "device/logical_device.h"

namespace tandem::devices {

/// What the host's own memory is accounted to.
inline constexpr const char* kHostName = "/device:CPU:0";

/// Counts a copy between the devices of these names.
void count_copy(const std::string& from, const std::string& to, size_t bytes);

/// An input of `op` is about to be copied. Warns, or throws FailedPrecondition, as the policy says.
void check_input_copy(const char* op, DType dtype, const Shape& shape, const Device& from,
                      const Device& to);

/// Forgets counts and warnings.
void forget_copies();

/// While it lives, no policy holds on this thread: the copy is what was asked for.
class ExplicitCopy {
 public:
  ExplicitCopy();
  ~ExplicitCopy();
  ExplicitCopy(const ExplicitCopy&) = delete;
  ExplicitCopy& operator=(const ExplicitCopy&) = delete;

 private:
  const bool former_;
};

}  // namespace tandem::devices
