/// A function that tests have called before each instruction of a program.
#pragma once

#include <functional>
#include <string>

namespace tandem::op {

using InstructionHook = std::function<void(int replica, const std::string& op)>;

/// Called before each instruction with the replica and the op's name, on every device. It may throw
/// or block. An empty function removes it.
void set_instruction_hook(InstructionHook hook);

/// The one that is set, or null. What it points to lives for ever.
const InstructionHook* instruction_hook();

}  // namespace tandem::op
