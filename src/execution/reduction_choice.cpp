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

/// The way that was chosen among our own, and why it is none of a library's.
ReductionChoice choose_copies(const SumDescription& sum) {
  const std::string few = scaled(static_cast<double>(kFewBytes), "B");
  const std::string not_library =
      sum.library.text.empty() ? "" : fmt::format("; not by NCCL, {}", sum.library.text);
  if (sum.bytes <= kFewBytes) {
    return {
        CrossDeviceReduction::one_device,
        fmt::format("one device, {}, since {} or less are few{}", sum.device, few, not_library)};
  }
  return {CrossDeviceReduction::ranges,
          fmt::format("ranges, since more than {} are too much for one device to pass on{}", few,
                      not_library)};
}

}  // namespace

collective::LibrarySums library_sums(const Replicas& replicas) {
  if (replicas.central || replicas.reduction != CrossDeviceReduction::automatic) return {};
  collective::LibrarySums found = collective::find_library_sums(replicas.devices);
  if (!replicas.single_threaded || found.text.empty()) return found;
  return {.text = "since reproducible sums have an order of their own"};
}

ReductionChoice choose_reduction(CrossDeviceReduction asked, const SumDescription& sum) {
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
  if (!sum.library.is_linked) return choose_copies(sum);
  return {CrossDeviceReduction::automatic,
          fmt::format("NCCL, since all GPUs are linked by {}", sum.library.text)};
}

}  // namespace tandem::graph
