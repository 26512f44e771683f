/// What each instruction does: the step of an opcode.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ptx_program.h"

namespace tandem::doubles::ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  bf16,
  f32,
  f64,
};

/// Type::none for a word that is no type.
Type type_of(std::string_view word);
size_t bytes_of(Type type);

/// `cvt.rn.ftz.f32.f64`: its words.
struct Opcode {
  explicit Opcode(const std::string& text);

  bool has(std::string_view word) const {
    return std::find(words.begin(), words.end(), word) != words.end();
  }

  std::string text;
  std::string name;                // "cvt"
  std::vector<std::string> words;  // "rn", "ftz", "f32", "f64"
  Type type = Type::none;          // The first of its types,
  Type from = Type::none;          // and the second.
};

/// Where memory is.
enum class Space { global, shared, local, parameter, generic };

/// The step of an instruction that makes `d` of `a`, `b` and `c`. It may set the instruction's
/// number. Throws PtxError for an opcode that is not known here.
Step step_of(const Opcode& opcode, PtxInstruction& instruction);

/// setp: `d` is whether `a` and `b` compare as the opcode says.
Step compare_step(const Opcode& opcode);

/// ld and st of one, two or four values: slots d, b, c, e; the address is slot `a` and the number.
Step load_step(Type type, Space space, size_t count);
Step store_step(Type type, Space space, size_t count);

/// atom and red: `d` is what was there; the address is slot `a` and the number, operands are b and
/// c.
Step atomic_step(const Opcode& opcode, Space space);

// Steps that programs are put together from.
namespace steps {
const PtxInstruction* move(const PtxInstruction*, uint64_t*, Thread&);  ///< d = a
const PtxInstruction* negate(const PtxInstruction*, uint64_t*,
                             Thread&);  ///< d = !a, of a predicate
const PtxInstruction* saturate(const PtxInstruction*, uint64_t*,
                               Thread&);  ///< d = d within 0 and 1
const PtxInstruction* extract(const PtxInstruction*, uint64_t*,
                              Thread&);  ///< d = 32 or 16 bits of a
const PtxInstruction* insert(const PtxInstruction*, uint64_t*, Thread&);  ///< those bits of d = a
const PtxInstruction* shared_address(const PtxInstruction*, uint64_t*,
                                     Thread&);  ///< d = a, generic
const PtxInstruction* local_address(const PtxInstruction*, uint64_t*, Thread&);
const PtxInstruction* from_shared(const PtxInstruction*, uint64_t*, Thread&);  ///< and back
const PtxInstruction* from_local(const PtxInstruction*, uint64_t*, Thread&);
const PtxInstruction* skip_unless(const PtxInstruction*, uint64_t*,
                                  Thread&);                                ///< to target unless a
const PtxInstruction* skip_if(const PtxInstruction*, uint64_t*, Thread&);  ///< to target if a
const PtxInstruction* branch(const PtxInstruction*, uint64_t*, Thread&);
const PtxInstruction* branch_by_index(const PtxInstruction*, uint64_t*,
                                      Thread&);  ///< table `number`
const PtxInstruction* call(const PtxInstruction*, uint64_t*,
                           Thread&);  ///< leaves the way back in d
const PtxInstruction* return_to(const PtxInstruction*, uint64_t*,
                                Thread&);  ///< the way back is in a
const PtxInstruction* copy_local(const PtxInstruction*, uint64_t*,
                                 Thread&);                              ///< d <- a, `number` bytes
const PtxInstruction* wait(const PtxInstruction*, uint64_t*, Thread&);  ///< at a barrier
const PtxInstruction* end(const PtxInstruction*, uint64_t*, Thread&);
const PtxInstruction* trap(const PtxInstruction*, uint64_t*, Thread&);
const PtxInstruction* nothing(const PtxInstruction*, uint64_t*, Thread&);
}  // namespace steps

}  // namespace tandem::doubles::ptx
