// Reads a variable and sets it, or adds to it or subtracts from it. While a fault stands variables
// stay as they are.
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/step.h"

namespace tandem::kernels::gpu {
namespace {

constexpr const char* kAssign = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 begin, i64 count) {
  if (AT(u32, 2)[0] != 0) return;
  const GLOBAL T* x = AT(T, 0) + begin;
  GLOBAL T* variable = AT(T, 1) + begin;
  EACH(i, count) variable[i] = NEW(variable[i], x[i]);
}
)";

constexpr const char* kAccumulate = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 begin, i64 count, i64 first_only,
            i64 first_microbatch, i64 members) {
  if (AT(u32, 3)[0] != 0) return;
  const GLOBAL T* x = AT(T, 1) + begin;
  GLOBAL T* sum = AT(T, 2) + begin;
  const int first = step_replica(AT(const char, 0)) / members == first_microbatch;
  if (!first && first_only) return;
  EACH(i, count) sum[i] = first ? x[i] : sum[i] + x[i];
}
)";

ExecutablePtr prepare_read(const Signature& s, const Device& device) {
  const size_t bytes = s.ranges[0].bytes();
  return op::executable([bytes, space = &device.space()](const Launch& launch) {
    launch.queue->copy(*space, launch.out<void>(0), *space, launch.range<void>(0), bytes);
  });
}

/// `change`: the new value of a variable's element v from that of the input, x.
ExecutablePtr prepare_assign(const char* change, const Signature& s, const Device& device) {
  Words words = types_of(s.ranges[0].dtype);
  words.emplace_back("NEW(v, x)", change);
  const Kernel kernel(device, {.name = s.op->name, .words = words, .body = kAssign});
  return op::executable([kernel, split = RowSplit(s.ranges[0].shape)](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    Call(launch, kernel).in(0).range(0).guard().whole(begin).whole(end - begin).each(end - begin);
  });
}

ExecutablePtr prepare_accumulate(const Signature& s, const Device& device) {
  const Kernel kernel(device, {.name = s.op->name,
                               .words = types_of(s.ranges[0].dtype),
                               .functions = {kStepFunctions},
                               .body = kAccumulate});
  return op::executable([kernel, split = RowSplit(s.ranges[0].shape),
                         first_only = s.attrs.get<bool>("first_only"),
                         first = s.attrs.get<int64_t>("first"),
                         members = s.attrs.get<int64_t>("members")](const Launch& launch) {
    const auto [begin, end] = split.part(launch);
    Call(launch, kernel)
        .step()
        .in(0)
        .range(0)
        .guard()
        .whole(begin)
        .whole(end - begin)
        .whole(first_only ? 1 : 0)
        .whole(first)
        .whole(members)
        .each(end - begin);
  });
}

}  // namespace

void register_assign(op::BackendKernels& kernels) {
  const auto assign = [](const char* change) {
    return [change](const Signature& s, const Device& device) {
      return prepare_assign(change, s, device);
    };
  };
  // Variables of small whole numbers are not for GPUs: see Device::Options::missing_kernels.
  using enum DType;
  const std::vector<DType> moved = {float32, float64, float16, bfloat16, int64};
  add_kernel(kernels, "read_variable", moved, prepare_read);
  add_kernel(kernels, "assign", moved, assign("(x)"));
  const std::vector<DType> computed = {float32, float64, int64};
  add_kernel(kernels, "assign_add", computed, assign("((v) + (x))"));
  add_kernel(kernels, "assign_sub", computed, assign("((v) - (x))"));
  add_kernel(kernels, "accumulate", {float32, float64, int32, int64}, prepare_accumulate);
}

}  // namespace tandem::kernels::gpu
