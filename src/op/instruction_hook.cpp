#include "op/instruction_hook.h"

#include <atomic>
#include <deque>

namespace tandem::op {
namespace {
std::atomic<const InstructionHook*> current{nullptr};
}

void set_instruction_hook(InstructionHook hook) {
  // A hook that a stuck thread may still be in is never freed.
  static auto* hooks = new std::deque<InstructionHook>;
  current = hook ? &hooks->emplace_back(std::move(hook)) : nullptr;
}

const InstructionHook* instruction_hook() { return current.load(std::memory_order_acquire); }

}  // namespace tandem::op
