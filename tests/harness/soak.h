/// Tests that can go on for long: `make test` runs them briefly, `make soak` at length.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace tandem::harness {

/// Whether `make soak` runs the test, which may then take minutes.
inline bool soaking() { return std::getenv("TANDEM_SOAK") != nullptr; }

/// How many cases to try.
inline int64_t rounds(int64_t in_test, int64_t in_soak) { return soaking() ? in_soak : in_test; }

}  // namespace tandem::harness
