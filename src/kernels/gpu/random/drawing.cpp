#include "kernels/gpu/random/drawing.h"

#include "kernels/gpu/step.h"

namespace tandem::kernels::gpu {
namespace {

// The stream of a call: see kernels/cpu/random/random_source.h.
constexpr const char* kPhilox = R"(
typedef struct { u32 a, b, c, d; } PhiloxBlock;
/* Written out ten times, as loops around loops do not become vectors. */
#define PHILOX_ROUND { \
    const u64 ac = (u64)0xD2511F53u * a; \
    const u64 ca = (u64)0xCD9E8D57u * c; \
    a = (u32)(ca >> 32) ^ b ^ k0; \
    b = (u32)ca; \
    c = (u32)(ac >> 32) ^ d ^ k1; \
    d = (u32)ac; \
    k0 += 0x9E3779B9u; \
    k1 += 0xBB67AE85u; \
  }
FN PhiloxBlock philox(u64 index, u64 upper, u64 key) {
  u32 a = (u32)index, b = (u32)(index >> 32), c = (u32)upper, d = (u32)(upper >> 32);
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
  PHILOX_ROUND PHILOX_ROUND PHILOX_ROUND PHILOX_ROUND PHILOX_ROUND
  PHILOX_ROUND PHILOX_ROUND PHILOX_ROUND PHILOX_ROUND PHILOX_ROUND
  PhiloxBlock block;
  block.a = a;
  block.b = b;
  block.c = c;
  block.d = d;
  return block;
}
FN u64 mixed_seed(u64 z) {
  z += ((u64)0x9E3779B9u << 32) | 0x7F4A7C15u;
  z = (z ^ (z >> 30)) * (((u64)0xBF58476Du << 32) | 0x1CE4E5B9u);
  z = (z ^ (z >> 27)) * (((u64)0x94D049BBu << 32) | 0x133111EBu);
  return z ^ (z >> 31);
}
FN u64 philox_key(const GLOBAL char* step, i64 seeded, i64 seed) {
  return seeded ? mixed_seed(mixed_seed(step_random_seed(step)) ^ (u64)seed)
                : mixed_seed(mixed_seed(~step_random_unseeded_seed(step)));
}
FN u64 philox_upper(const GLOBAL char* step, i64 stream, i64 salt) {
  const u64 call = step_random_call(step) + (u64)stream;
  const u32 high = (u32)(call >> 32);
  const u32 second = (u32)call ^ (high * 0x9E3779B9u);
  return ((u64)second << 32) | ((u32)salt ^ step_random_sequence(step));
}
)";

// Unit u of the work is block u % most of those that run u / most may touch.
constexpr const char* kDraw = R"(
KERNEL NAME(MEMORY(0), i64 seeded, i64 seed, i64 stream, i64 salt, i64 units, i64 most, i64 run,
            i64 per_row, OPERANDS) {
  const GLOBAL char* step = AT(const char, 0);
  STREAM
  const i64 offset = step_row_offset(step) * per_row;
  const i64 global_run = step_global_rows(step) * per_row;
  SETUP
#ifdef SERIAL
  enum { most_words = 4 * 64 };
  u32 words[most_words];
  i64 unit = units * GID() / GSIZE();
  const i64 end = units * (GID() + 1) / GSIZE();
  while (unit < end) {
    const i64 r = unit / most;
    const i64 skipped = unit - r * most;
    i64 blocks = most - skipped < end - unit ? most - skipped : end - unit;
    if (blocks > 64) blocks = 64;
    const i64 position = r * global_run + offset;
    const i64 first = position / PER + skipped;
    INDEPENDENT for (i64 b = 0; b < blocks; ++b) {
      const PhiloxBlock block = philox((u64)(first + b), upper, key);
      words[4 * b] = block.a;
      words[4 * b + 1] = block.b;
      words[4 * b + 2] = block.c;
      words[4 * b + 3] = block.d;
    }
    PREPARE(blocks)
    /* Element k of the blocks is element k + ahead of the run; the run's are written. */
    const i64 ahead = first * PER - position;
    const i64 low = ahead < 0 ? -ahead : 0;
    const i64 high = run - ahead < blocks * PER ? run - ahead : blocks * PER;
    const i64 begin = r * run + ahead;
    INDEPENDENT for (i64 k = low; k < high; ++k) WRITE(begin + k, k)
    unit += blocks;
  }
#else
  EACH(unit, units) {
    const i64 r = unit / most;
    const i64 position = r * global_run + offset;
    const i64 first = position / PER + unit - r * most;
    const i64 ahead = first * PER - position;
    const PhiloxBlock block = philox((u64)first, upper, key);
    enum { most_words = 4 };
    const u32 words[most_words] = {block.a, block.b, block.c, block.d};
    PREPARE(1)
    for (int k = 0; k < PER; ++k)
      if (ahead + k >= 0 && ahead + k < run) WRITE(r * run + ahead + k, k)
  }
#endif
}
)";

constexpr const char* kStreamOfCall =
    "const u64 key = philox_key(step, seeded, seed); "
    "const u64 upper = philox_upper(step, stream, salt);";

Kernel kernel_of(const Device& device, int per_block, DrawingText text) {
  text.words.emplace_back("STREAM", text.stream.empty() ? kStreamOfCall : text.stream);
  text.words.emplace_back("PER", std::to_string(per_block));
  text.words.emplace_back("PREPARE(n)", text.prepare);
  text.functions.insert(text.functions.begin(), {kStepFunctions, kPhilox});
  return Kernel(
      device, {.name = text.name, .words = text.words, .functions = text.functions, .body = kDraw});
}

}  // namespace

Drawing::Drawing(const Device& device, const Signature& s, const Shape& shape, int per_block,
                 const DrawingText& text)
    : kernel_(kernel_of(device, per_block, text)),
      seeded_(text.stream.empty() && s.attrs.get<bool>("seeded")),
      seed_(text.stream.empty() ? s.attrs.get<int64_t>("seed") : 0) {
  const GlobalPositions positions(s, shape);
  const int64_t count = shape.total_extent();
  run_ = positions.run() == 0 ? count : positions.run();
  runs_ = run_ == 0 ? 0 : count / run_;
  per_row_ = positions.run() == 0 ? 0 : positions.per_row();
  blocks_ = runs_ * ((run_ + per_block - 2) / per_block + 1);
}

Call& Drawing::begin(Call& call, const Launch& launch) const {
  return call.step()
      .whole(seeded_ ? 1 : 0)
      .whole(seed_)
      .whole(launch.random_call)
      .whole(launch.salt)
      .whole(blocks_)
      .whole(blocks_ / runs_)
      .whole(run_)
      .whole(per_row_);
}

}  // namespace tandem::kernels::gpu
