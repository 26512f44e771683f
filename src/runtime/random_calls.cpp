#include "runtime/random_calls.h"

#include <atomic>

namespace tandem::runtime {
namespace {
std::atomic<uint64_t> calls{0};
}

uint64_t next_random_call() { return calls.fetch_add(1, std::memory_order_relaxed); }
void reset_random_calls(uint64_t next) { calls = next; }

}  // namespace tandem::runtime
