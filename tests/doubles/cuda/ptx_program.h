/// Programs in PTX, the assembly language of NVIDIA's GPUs, as they are run here: an array of
/// decoded instructions for each kernel, in which functions that it calls have their place, too.
///
/// A thread's registers are 64-bit slots of a frame:
///
///   | special registers | registers and constants, as they appear in the text |
///
/// so that every operand is the number of a slot. A slot's value is as wide as the instruction that
/// reads it says; what is above that does not count.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tandem::doubles::ptx {

/// Slots that every frame begins with.
enum SpecialSlot : int32_t {
  kThreadX,
  kThreadY,
  kThreadZ,
  kThreadsX,
  kThreadsY,
  kThreadsZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kBlocksX,
  kBlocksY,
  kBlocksZ,
  kLane,
  kCarry,
  kScratch,      // For what nobody reads,
  kScratchAlso,  // and for steps in between.
  kSpecialSlots,
};

struct Thread;
struct PtxInstruction;

/// Runs an instruction and returns the next; null where the thread stops.
using Step = const PtxInstruction* (*)(const PtxInstruction*, uint64_t* slots, Thread&);

struct PtxInstruction {
  Step step = nullptr;
  int32_t d = kScratch;  // The result, and the first of several.
  int32_t a = kScratch;  // Operands; results of loads of several values.
  int32_t b = kScratch;
  int32_t c = kScratch;
  int32_t e = kScratch;
  int32_t range = 0;    // Where the instruction remembers the memory that it has used last.
  uint64_t number = 0;  // An offset, a rounding, another step: as `step` has it.
  const PtxInstruction* target = nullptr;
};

struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct PtxKernel {
  std::string name;
  std::vector<PtxInstruction> code;
  std::vector<std::string> text;                           // Each instruction's, for errors.
  std::vector<std::pair<int32_t, uint64_t>> constants;     // Slots and their values.
  std::vector<std::vector<const PtxInstruction*>> tables;  // The targets of branches by an index.
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  size_t shared_bytes = 0;
  size_t local_bytes = 0;  // Local memory and what calls pass on.
  int32_t slots = kSpecialSlots;
  int32_t ranges = 0;
  bool has_barrier = false;
};

/// Everything in one text of PTX.
struct PtxModule {
  std::map<std::string, std::unique_ptr<PtxKernel>> kernels;
  std::vector<std::unique_ptr<std::vector<uint64_t>>> variables;  // In global memory.
};

/// What is wrong with a text, or not known here.
struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws PtxError.
std::unique_ptr<PtxModule> parse(const std::string& text);

}  // namespace tandem::doubles::ptx
