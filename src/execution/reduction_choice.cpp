#include "execution/reduction_choice.h"

#include <fmt/format.h>

#include "graph/program.h"

namespace tandem::graph {
namespace {

using distribute::CrossDeviceReduction;

/// Below this what a sum costs is the number of copies, and one device makes fewer: N - 1 each way,
/// where N ranges make N (N - 1). Above it is the bytes, and ranges load all devices alike: with
/// one device, that one receives and sends everything while the others wait.
constexpr size_t kFewBytes = 256 << 10;

}  // namespace

ReductionChoice choose_reduction(CrossDeviceReduction asked, const SumDescription& sum) {
  const std::string few = scaled(static_cast<double>(kFewBytes), "B");
  const auto one_device = [&](const std::string& why) {
    return ReductionChoice{CrossDeviceReduction::one_device,
                           fmt::format("one device, {}, {}", sum.device, why)};
  };
  if (sum.is_central) return one_device("since the variables are there");
  if (asked == CrossDeviceReduction::one_device) return one_device("as it was asked for");
  // Callers that ask for ranges want the gradients' ranges.
  if (asked == CrossDeviceReduction::ranges && sum.is_update) {
    return {CrossDeviceReduction::ranges, "ranges, as it was asked for"};
  }
  if (sum.bytes <= kFewBytes) return one_device(fmt::format("since {} or less are few", few));
  return {CrossDeviceReduction::ranges,
          fmt::format("ranges, since more than {} are too much for one device to pass on", few)};
}

}  // namespace tandem::graph
