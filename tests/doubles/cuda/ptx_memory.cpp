// The steps of instructions that use memory or change the course of a thread.
//
// Global memory has the addresses of the host. Shared and local memory begin at 0, and have other
// addresses where they are generic: those of the host, too.
#include <unordered_map>

#include "ptx_machine.h"
#include "ptx_operations.h"
#include "ptx_values.h"

namespace tandem::doubles::ptx {
namespace {

/// Looks for the memory that the address belongs to where the instruction's last one is another.
[[gnu::noinline]] void find_range(const PtxInstruction* i, Thread& thread, uint64_t address,
                                  size_t bytes) {
  const PtxRange found = (*thread.find_range)(address);
  if (found.begin == found.end) {
    throw_bad_address(i, thread, address, bytes, "where no memory of the device is");
  }
  if (address + bytes > found.end) {
    throw_bad_address(i, thread, address, bytes, "past the end of an allocation");
  }
  thread.ranges[i->range] = found;
}

bool lies_in(uint64_t address, size_t bytes, const char* memory, size_t size) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  return address >= begin && address + bytes <= begin + size;
}

/// Where the operand of an instruction is.
template <Space kSpace>
char* locate(const PtxInstruction* i, const uint64_t* r, Thread& thread, size_t bytes) {
  const uint64_t address = r[i->a] + i->number;
  if constexpr (kSpace == Space::parameter) {
    return const_cast<char*>(thread.parameters) + address;
  } else if constexpr (kSpace == Space::shared || kSpace == Space::local) {
    const bool shared = kSpace == Space::shared;
    const uint64_t offset = static_cast<uint32_t>(address);
    const size_t size = shared ? thread.kernel->shared_bytes : thread.kernel->local_bytes;
    if (offset + bytes > size || offset % bytes != 0) {
      throw_bad_address(
          i, thread, offset, bytes,
          shared ? "not within the block's memory" : "not within the thread's memory");
    }
    return (shared ? thread.shared : thread.local) + offset;
  } else {
    if (address % bytes != 0) throw_bad_address(i, thread, address, bytes, "which is not aligned");
    const PtxRange& last = thread.ranges[i->range];
    if (address < last.begin || address + bytes > last.end) {
      const bool own = kSpace == Space::generic &&
                       (lies_in(address, bytes, thread.shared, thread.kernel->shared_bytes) ||
                        lies_in(address, bytes, thread.local, thread.kernel->local_bytes));
      if (!own) find_range(i, thread, address, bytes);
    }
    return reinterpret_cast<char*>(address);
  }
}

template <class T>
T read_memory(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T, Space kSpace, size_t kCount>
const PtxInstruction* load(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  const char* const from = locate<kSpace>(i, r, thread, sizeof(T) * kCount);
  write<T>(r[i->d], read_memory<T>(from));
  if constexpr (kCount > 1) write<T>(r[i->b], read_memory<T>(from + sizeof(T)));
  if constexpr (kCount > 2) {
    write<T>(r[i->c], read_memory<T>(from + 2 * sizeof(T)));
    write<T>(r[i->e], read_memory<T>(from + 3 * sizeof(T)));
  }
  return i + 1;
}

template <class T, Space kSpace, size_t kCount>
const PtxInstruction* store(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  char* const to = locate<kSpace>(i, r, thread, sizeof(T) * kCount);
  std::memcpy(to, &r[i->d], sizeof(T));
  if constexpr (kCount > 1) std::memcpy(to + sizeof(T), &r[i->b], sizeof(T));
  if constexpr (kCount > 2) {
    std::memcpy(to + 2 * sizeof(T), &r[i->c], sizeof(T));
    std::memcpy(to + 3 * sizeof(T), &r[i->e], sizeof(T));
  }
  return i + 1;
}

/// Nothing runs at the same time, so there is nothing to do for it to be atomic.
template <class T, Space kSpace, class F>
const PtxInstruction* atomic(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  char* const at = locate<kSpace>(i, r, thread, sizeof(T));
  const T before = read_memory<T>(at);
  const T after = static_cast<T>(F{}(before, read<T>(r[i->b]), read<T>(r[i->c])));
  std::memcpy(at, &after, sizeof after);
  write<T>(r[i->d], before);
  return i + 1;
}

struct AddTo {
  template <class T>
  T operator()(T old, T b, T) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(old) + uint64_t(b));
    else
      return old + b;
  }
};
struct Least {
  template <class T>
  T operator()(T old, T b, T) const {
    return b < old ? b : old;
  }
};
struct Greatest {
  template <class T>
  T operator()(T old, T b, T) const {
    return b > old ? b : old;
  }
};
struct Replacement {
  template <class T>
  T operator()(T, T b, T) const {
    return b;
  }
};
struct CompareAndSet {
  template <class T>
  T operator()(T old, T b, T c) const {
    return old == b ? c : old;
  }
};
template <char kOperator>
struct Bits {
  template <class T>
  T operator()(T old, T b, T) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(kOperator == '&' ? old & b : kOperator == '|' ? old | b : old ^ b);
    } else {
      return old;
    }
  }
};
struct Increment {  // From b back to 0.
  template <class T>
  T operator()(T old, T b, T) const {
    return old >= b ? T{0} : static_cast<T>(old + 1);
  }
};
struct Decrement {  // From 0 back to b.
  template <class T>
  T operator()(T old, T b, T) const {
    return old == 0 || old > b ? b : static_cast<T>(old - 1);
  }
};

template <Space kSpace, class F>
Step atomic_of(Type type) {
  switch (type) {
    case Type::b32:
    case Type::u32:
      return &atomic<uint32_t, kSpace, F>;
    case Type::s32:
      return &atomic<int32_t, kSpace, F>;
    case Type::b64:
    case Type::u64:
      return &atomic<uint64_t, kSpace, F>;
    case Type::s64:
      return &atomic<int64_t, kSpace, F>;
    case Type::f32:
      return &atomic<float, kSpace, F>;
    case Type::f64:
      return &atomic<double, kSpace, F>;
    case Type::b16:
    case Type::u16:
      return &atomic<uint16_t, kSpace, F>;
    default:
      return nullptr;
  }
}

template <Space kSpace>
Step atomic_in(const Opcode& opcode) {
  if (opcode.has("add")) return atomic_of<kSpace, AddTo>(opcode.type);
  if (opcode.has("min")) return atomic_of<kSpace, Least>(opcode.type);
  if (opcode.has("max")) return atomic_of<kSpace, Greatest>(opcode.type);
  if (opcode.has("exch")) return atomic_of<kSpace, Replacement>(opcode.type);
  if (opcode.has("cas")) return atomic_of<kSpace, CompareAndSet>(opcode.type);
  if (opcode.has("and")) return atomic_of<kSpace, Bits<'&'>>(opcode.type);
  if (opcode.has("or")) return atomic_of<kSpace, Bits<'|'>>(opcode.type);
  if (opcode.has("xor")) return atomic_of<kSpace, Bits<'^'>>(opcode.type);
  if (opcode.has("inc")) return atomic_of<kSpace, Increment>(opcode.type);
  if (opcode.has("dec")) return atomic_of<kSpace, Decrement>(opcode.type);
  return nullptr;
}

/// A load extends small numbers by their sign where they have one. Everything else is bits.
template <class Choice>
Step for_memory(Type type, const Choice& choice) {
  if (type == Type::s8) return choice.template operator()<int8_t>();
  if (type == Type::s16) return choice.template operator()<int16_t>();
  if (type == Type::s32) return choice.template operator()<int32_t>();
  switch (bytes_of(type)) {
    case 1:
      return choice.template operator()<uint8_t>();
    case 2:
      return choice.template operator()<uint16_t>();
    case 4:
      return choice.template operator()<uint32_t>();
    default:
      return choice.template operator()<uint64_t>();
  }
}

template <class T, Space kSpace>
Step load_of(size_t count) {
  return count == 1 ? &load<T, kSpace, 1> : count == 2 ? &load<T, kSpace, 2> : &load<T, kSpace, 4>;
}
template <class T, Space kSpace>
Step store_of(size_t count) {
  return count == 1   ? &store<T, kSpace, 1>
         : count == 2 ? &store<T, kSpace, 2>
                      : &store<T, kSpace, 4>;
}

}  // namespace

Step load_step(Type type, Space space, size_t count) {
  return for_memory(type, [&]<class T>() -> Step {
    switch (space) {
      case Space::global:
        return load_of<T, Space::global>(count);
      case Space::shared:
        return load_of<T, Space::shared>(count);
      case Space::local:
        return load_of<T, Space::local>(count);
      case Space::parameter:
        return load_of<T, Space::parameter>(count);
      case Space::generic:
        return load_of<T, Space::generic>(count);
    }
    return nullptr;
  });
}

Step store_step(Type type, Space space, size_t count) {
  return for_memory(type, [&]<class T>() -> Step {
    switch (space) {
      case Space::global:
        return store_of<T, Space::global>(count);
      case Space::shared:
        return store_of<T, Space::shared>(count);
      case Space::local:
        return store_of<T, Space::local>(count);
      case Space::generic:
        return store_of<T, Space::generic>(count);
      case Space::parameter:
        break;
    }
    throw PtxError("kernels do not change their parameters");
  });
}

Step atomic_step(const Opcode& opcode, Space space) {
  const Step step = space == Space::global   ? atomic_in<Space::global>(opcode)
                    : space == Space::shared ? atomic_in<Space::shared>(opcode)
                                             : atomic_in<Space::generic>(opcode);
  if (step == nullptr) throw PtxError("'" + opcode.text + "' is not known here");
  return step;
}

namespace steps {

const PtxInstruction* move(const PtxInstruction* i, uint64_t* r, Thread&) {
  r[i->d] = r[i->a];
  return i + 1;
}

const PtxInstruction* negate(const PtxInstruction* i, uint64_t* r, Thread&) {
  r[i->d] = ~r[i->a] & 1;
  return i + 1;
}

const PtxInstruction* saturate(const PtxInstruction* i, uint64_t* r, Thread&) {
  const float x = read<float>(r[i->d]);
  write<float>(r[i->d], !(x > 0) ? 0.0F : x > 1 ? 1.0F : x);
  return i + 1;
}

/// The number is the first bit, b as many as there are.
const PtxInstruction* extract(const PtxInstruction* i, uint64_t* r, Thread&) {
  r[i->d] = r[i->a] >> i->number & ((uint64_t{1} << i->b) - 1);
  return i + 1;
}

const PtxInstruction* insert(const PtxInstruction* i, uint64_t* r, Thread&) {
  const uint64_t mask = (uint64_t{1} << i->b) - 1;
  r[i->d] = (r[i->d] & ~(mask << i->number)) | (r[i->a] & mask) << i->number;
  return i + 1;
}

const PtxInstruction* shared_address(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  r[i->d] = reinterpret_cast<uint64_t>(thread.shared) + r[i->a];
  return i + 1;
}

const PtxInstruction* local_address(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  r[i->d] = reinterpret_cast<uint64_t>(thread.local) + r[i->a];
  return i + 1;
}

const PtxInstruction* from_shared(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  r[i->d] = r[i->a] - reinterpret_cast<uint64_t>(thread.shared);
  return i + 1;
}

const PtxInstruction* from_local(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  r[i->d] = r[i->a] - reinterpret_cast<uint64_t>(thread.local);
  return i + 1;
}

const PtxInstruction* skip_unless(const PtxInstruction* i, uint64_t* r, Thread&) {
  return (r[i->a] & 1) != 0 ? i + 1 : i->target;
}

const PtxInstruction* skip_if(const PtxInstruction* i, uint64_t* r, Thread&) {
  return (r[i->a] & 1) != 0 ? i->target : i + 1;
}

const PtxInstruction* branch(const PtxInstruction* i, uint64_t*, Thread&) { return i->target; }

const PtxInstruction* branch_by_index(const PtxInstruction* i, uint64_t* r, Thread& thread) {
  return thread.kernel->tables[i->number].at(static_cast<uint32_t>(r[i->a]));
}

const PtxInstruction* call(const PtxInstruction* i, uint64_t* r, Thread&) {
  r[i->d] = reinterpret_cast<uint64_t>(i + 1);
  return i->target;
}

const PtxInstruction* return_to(const PtxInstruction* i, uint64_t* r, Thread&) {
  return reinterpret_cast<const PtxInstruction*>(r[i->a]);
}

/// Both are offsets, not slots.
const PtxInstruction* copy_local(const PtxInstruction* i, uint64_t*, Thread& thread) {
  std::memcpy(thread.local + i->d, thread.local + i->a, i->number);
  return i + 1;
}

const PtxInstruction* wait(const PtxInstruction* i, uint64_t*, Thread& thread) {
  thread.state = Thread::State::waiting;
  thread.at = i + 1;
  return nullptr;
}

const PtxInstruction* end(const PtxInstruction*, uint64_t*, Thread& thread) {
  thread.state = Thread::State::ended;
  return nullptr;
}

const PtxInstruction* trap(const PtxInstruction*, uint64_t*, Thread& thread) {
  throw DeviceFault(DeviceFault::Kind::program, thread.kernel->name + ": trap");
}

const PtxInstruction* nothing(const PtxInstruction* i, uint64_t*, Thread&) { return i + 1; }

}  // namespace steps

}  // namespace tandem::doubles::ptx
