#include "graph/pipeline/stage_search.h"

#include <algorithm>
#include <limits>

namespace tandem::graph {
namespace {

/// Memory of a chunk that grows by one call after the other.
class ChunkBytes {
 public:
  explicit ChunkBytes(const ChunkPlace& place) : place_(place) {}

  void add(const CallLoad& call) {
    kept_ += call.kept_bytes;
    sums_ += call.sum_bytes;
    passing_ = std::max(passing_, call.passing_bytes);
  }

  size_t total() const {
    // Both passes have an arena, with the operands of a call at least.
    constexpr size_t kCallsAtOnce = 2;
    return kept_ * static_cast<size_t>(place_.in_flight) + sums_ + passing_ * kCallsAtOnce;
  }

 private:
  const ChunkPlace& place_;
  size_t kept_ = 0;
  size_t sums_ = 0;
  size_t passing_ = 0;
};

constexpr double kNever = std::numeric_limits<double>::max();

/// The best cut into as many chunks as there are places; empty where there is none.
std::vector<size_t> best_ends(const std::vector<CallLoad>& calls,
                              const std::vector<double>& crossing,
                              const std::vector<ChunkPlace>& places) {
  const size_t n = calls.size();
  const size_t chunks = places.size();
  std::vector<double> until(n + 1, 0);
  for (size_t i = 0; i < n; ++i) until[i + 1] = until[i] + calls[i].seconds;
  // best[c][i]: the time of the slowest of c chunks that hold the first i calls.
  std::vector<std::vector<double>> best(chunks + 1, std::vector<double>(n + 1, kNever));
  std::vector<std::vector<size_t>> begins(chunks + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = 0;
  for (size_t c = 1; c <= chunks; ++c) {
    const ChunkPlace& place = places[c - 1];
    for (size_t end = 0; end <= n; ++end) {
      ChunkBytes bytes(place);
      // The chunk grows from its end to earlier begins; where it is too large it stays so.
      for (size_t begin = end + 1; begin-- > 0;) {
        if (begin < end) bytes.add(calls[begin]);
        if (bytes.total() > place.room) break;
        const double own =
            (until[end] - until[begin]) / place.threads + crossing[begin] + crossing[end];
        const double slowest = std::max(best[c - 1][begin], own);
        // The cut whose chunk begins first is taken among equal ones.
        if (slowest > best[c][end] || slowest == kNever) continue;
        best[c][end] = slowest;
        begins[c][end] = begin;
      }
    }
  }
  if (best[chunks][n] == kNever) return {};
  std::vector<size_t> ends(chunks);
  size_t end = n;
  for (size_t c = chunks; c > 0; --c) {
    ends[c - 1] = end;
    end = begins[c][end];
  }
  return ends;
}

}  // namespace

std::vector<size_t> find_chunks(const std::vector<CallLoad>& calls,
                                const std::vector<double>& crossing,
                                const std::vector<ChunkPlace>& places) {
  constexpr double kMore = 1.25;
  std::vector<ChunkPlace> looser = places;
  while (true) {
    std::vector<size_t> ends = best_ends(calls, crossing, looser);
    if (!ends.empty() || places.empty()) return ends;
    for (ChunkPlace& place : looser) {
      if (place.room == ChunkPlace::kAnyRoom) continue;
      place.room = static_cast<size_t>(static_cast<double>(place.room) * kMore) + 1;
    }
  }
}

}  // namespace tandem::graph
