/// Runs kernels: block by block, and in a block thread by thread, each until it ends or comes to a
/// barrier. Threads that do not wait for each other where they should get different values then,
/// and more so in the other order.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "ptx_program.h"

namespace tandem::doubles::ptx {

/// What a kernel did that a device would not have done.
struct DeviceFault : std::runtime_error {
  enum class Kind { address, alignment, program };
  DeviceFault(Kind fault, const std::string& what) : std::runtime_error(what), kind(fault) {}
  Kind kind;
};

/// A range of addresses that a kernel may use.
struct PtxRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// The range in which an address lies; an empty one where it may not be used.
using FindRange = std::function<PtxRange(uint64_t address)>;

enum class ThreadOrder { forward, reverse };

struct PtxLaunch {
  uint32_t blocks[3] = {1, 1, 1};
  uint32_t threads[3] = {1, 1, 1};
  std::vector<char> parameters;
  ThreadOrder order = ThreadOrder::forward;
};

/// A thread of a kernel, as instructions see it.
struct Thread {
  enum class State { running, waiting, ended };

  const PtxKernel* kernel = nullptr;
  char* shared = nullptr;
  char* local = nullptr;
  const char* parameters = nullptr;
  PtxRange* ranges = nullptr;
  const FindRange* find_range = nullptr;
  State state = State::running;
  const PtxInstruction* at = nullptr;  // Where it goes on.
};

/// Returns how many instructions were run. Throws DeviceFault.
uint64_t run(const PtxKernel& kernel, const PtxLaunch& launch, const FindRange& find_range);

/// Throws for an instruction that uses memory which it must not use.
[[noreturn]] void throw_bad_address(const PtxInstruction* instruction, const Thread& thread,
                                    uint64_t address, size_t bytes, const char* why);

}  // namespace tandem::doubles::ptx
