/// A driver that passes everything on to another one, and fails when it is told to: at the n-th
/// call of a kind, in the way in which real drivers fail there.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "device/gpu/driver.h"

namespace tandem::harness {

/// What a driver is asked.
enum class DriverCall {
  allocate,
  create_stream,
  compile,
  launch,
  write,
  read,
  copy,
  fill,
  mark,
  ask_mark,  ///< A command failed on the device, after it had been issued.
};
const char* name_of(DriverCall call);

/// When calls fail, and how many there were. Shared by a driver, its streams and marks.
class FaultPlan {
 public:
  /// The n-th call of this kind from now on fails, the first for 1; `for_good`: and all after it.
  void fail(DriverCall call, int n, bool for_good = false);
  void fail_no_more();

  /// To be told of each call. Returns whether it fails.
  bool is_failing(DriverCall call);
  int calls(DriverCall call) const;

  /// Allocations that were not given back.
  std::atomic<int> live_allocations{0};

 private:
  mutable std::mutex mutex_;
  std::map<DriverCall, int> counts_;
  DriverCall failing_{};
  int countdown_ = 0;
  bool for_good_ = false;
};

devices::gpu::DriverPtr make_faulty(devices::gpu::DriverPtr inner, std::shared_ptr<FaultPlan> plan);

/// A driver that says of its device what another one might say.
devices::gpu::DriverPtr describe_as(devices::gpu::DriverPtr inner,
                                    const devices::gpu::Description& description);

}  // namespace tandem::harness
