/// Bad values that kernels find. A kernel cannot throw, so it leaves the first bad value in a word
/// of its device's memory; kernels that change variables do nothing while it is set. The host reads
/// the word behind commands that may have set it, and makes the error that the CPU's kernel throws.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tandem::devices::gpu {

/// As it lies in the device's memory. The dialect's report_fault() writes it.
struct FaultWord {
  uint32_t report = 0;  ///< Which report tells about it; 0: nothing was found.
  uint32_t unused = 0;
  uint64_t ticket = 0;  ///< The command that found it.
  int64_t place = 0;
  int64_t value = 0;
};
static_assert(sizeof(FaultWord) == 32);

/// What is wrong with `value` at `place`: throws the error.
using FaultReport = std::function<void(int64_t place, int64_t value)>;

/// The reports of all kernels in the process, by the numbers that they have in fault words.
class FaultReports {
 public:
  static FaultReports& instance();

  uint32_t add(FaultReport report);
  void remove(uint32_t number);

  /// The report of an error that the host knows already. The last few of them are kept.
  uint32_t add_known(std::exception_ptr error);

  /// The error of a word that is set. `device` found it.
  std::exception_ptr error_of(const FaultWord& word, const std::string& device);

 private:
  std::mutex mutex_;
  uint32_t last_ = 0;
  std::deque<uint32_t> known_;  // Those of add_known().
  std::unordered_map<uint32_t, FaultReport> reports_;
};

}  // namespace tandem::devices::gpu
