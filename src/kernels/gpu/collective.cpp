// replica_id: which replica this is; global_rows: how many rows all have. The other collectives are
// exchanges between queues (execution/exchange.h) where there are several replicas; a replica that
// is alone has its own values.
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/step.h"

namespace tandem::kernels::gpu {
namespace {

constexpr const char* kReplica = R"(
KERNEL NAME(MEMORY(0), MEMORY(1)) {
  if (GID() == 0) AT(i32, 1)[0] = step_replica(AT(const char, 0));
}
)";

constexpr const char* kGlobalRows = R"(
KERNEL NAME(MEMORY(0), MEMORY(1)) {
  if (GID() == 0) AT(double, 1)[0] = (double)step_global_rows(AT(const char, 0));
}
)";

ExecutablePtr prepare_global_rows(const Signature&, const Device& device) {
  const Kernel kernel(device,
                      {.name = "global_rows", .functions = {kStepFunctions}, .body = kGlobalRows});
  return op::executable(
      [kernel](const Launch& launch) { Call(launch, kernel).step().out(0).each(1); });
}

ExecutablePtr prepare_replica_id(const Signature&, const Device& device) {
  const Kernel kernel(device,
                      {.name = "replica_id", .functions = {kStepFunctions}, .body = kReplica});
  return op::executable(
      [kernel](const Launch& launch) { Call(launch, kernel).step().out(0).each(1); });
}

ExecutablePtr prepare_own_values(const Signature& s, const Device& device) {
  std::vector<size_t> bytes;
  for (const op::TensorType& type : s.inputs) bytes.push_back(type.bytes());
  return op::executable([bytes, space = &device.space()](const Launch& launch) {
    for (int i = 0; i < launch.inputs; ++i) {
      if (launch.in<void>(i) == launch.out<void>(i)) continue;
      launch.queue->copy(*space, launch.out<void>(i), *space, launch.in<void>(i),
                         bytes[static_cast<size_t>(i)]);
    }
  });
}

}  // namespace

void register_collective(op::BackendKernels& kernels) {
  for (const char* op : {"all_reduce", "reduce_scatter", "broadcast", "sum_over_model",
                         "sum_over_holders", "join_parts", "sum_to_part"}) {
    add_kernel(kernels, op, {DType::float32, DType::float64, DType::int32, DType::int64},
               prepare_own_values);
  }
  add_kernel(kernels, "replica_id", {DType::int32}, prepare_replica_id);
  add_kernel(kernels, "global_rows", {DType::float64}, prepare_global_rows);
}

}  // namespace tandem::kernels::gpu
