// Parts of values on GPUs (collective/parts.cpp): take_part, put_part and own_part. With the axes
// before the cut one and those from it on each as one, the whole is [outer, parts, run] and a part
// is [outer, run].
#include "device/gpu/dialect.h"
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/step.h"

namespace tandem::kernels::gpu {
namespace {

constexpr const char* kTake = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 parts, i64 run, i64 count) {
  const GLOBAL T* whole = AT(T, 0);
  const i64 own = AT(i32, 1)[0];
  GLOBAL T* part = AT(T, 2);
  EACH(i, count) {
    const i64 place = i / run;
    part[i] = whole[(place * parts + own) * run + i - place * run];
  }
}
)";

constexpr const char* kPut = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 parts, i64 run, i64 count) {
  const GLOBAL T* part = AT(T, 0);
  const i64 own = AT(i32, 1)[0];
  GLOBAL T* whole = AT(T, 2);
  EACH(i, count) {
    const i64 place = i / run;
    const i64 outer = place / parts;
    whole[i] = place - outer * parts == own ? part[outer * run + i - place * run] : 0;
  }
}
)";

// The last part may go past the end of the whole, and has zeros there.
constexpr const char* kOwn = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 parts, i64 whole_count, i64 count) {
  const GLOBAL T* whole = AT(T, 0);
  const i64 start = step_replica(AT(const char, 2)) % parts * count;
  GLOBAL T* part = AT(T, 1);
  EACH(i, count) part[i] = start + i < whole_count ? whole[start + i] : 0;
}
)";

ExecutablePtr prepare_axis(const Signature& s, const Device& device, const char* name,
                           const char* body, const Shape& part) {
  const int64_t parts = s.attrs.get<int64_t>("parts");
  const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
  int64_t run = 1;
  for (int i = axis; i < part.rank(); ++i) run *= part.extent(i);
  const int64_t count = count_of(s.outputs[0]);
  const Kernel kernel(device, {.name = name, .words = word_of(s.outputs[0].dtype), .body = body});
  return op::executable([=](const Launch& launch) {
    Call(launch, kernel).in(0).in(1).out(0).whole(parts).whole(run).whole(count).each(count);
  });
}

ExecutablePtr prepare_take(const Signature& s, const Device& device) {
  return prepare_axis(s, device, "take_part", kTake, s.outputs[0].shape);
}

ExecutablePtr prepare_put(const Signature& s, const Device& device) {
  return prepare_axis(s, device, "put_part", kPut, s.inputs[0].shape);
}

ExecutablePtr prepare_own(const Signature& s, const Device& device) {
  const int64_t parts = s.attrs.get<int64_t>("parts");
  const int64_t whole = s.attrs.get<Shape>("whole").total_extent();
  const int64_t count = count_of(s.outputs[0]);
  const Kernel kernel(device, {.name = "own_part",
                               .words = word_of(s.outputs[0].dtype),
                               .functions = {kStepFunctions},
                               .body = kOwn});
  return op::executable([=](const Launch& launch) {
    Call(launch, kernel).in(0).out(0).step().whole(parts).whole(whole).whole(count).each(count);
  });
}

}  // namespace

void register_parts(op::BackendKernels& kernels) {
  add_kernel(kernels, "take_part", all_dtypes(), prepare_take);
  add_kernel(kernels, "put_part", all_dtypes(), prepare_put);
  add_kernel(kernels, "own_part", all_dtypes(), prepare_own);
}

}  // namespace tandem::kernels::gpu
