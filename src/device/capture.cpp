#include "device/capture.h"

#include "device/gpu/gpu_queue.h"
#include "device/settings.h"

namespace tandem::devices {

bool captures_steps(const Device& device) {
  const config::CapturedSteps when = settings.captured_steps;
  if (when != config::CapturedSteps::automatic) return when == config::CapturedSteps::on;
  return device.backend() == "cuda";
}

CapturedWork capture(Queue& queue, const std::function<void()>& work) {
  auto* const gpu = dynamic_cast<gpu::GpuQueue*>(&queue);
  return gpu == nullptr ? nullptr : gpu->timeline().capture(work);
}

void replay(Queue& queue, const CapturedWork& captured) {
  static_cast<gpu::GpuQueue&>(queue).timeline().replay(
      std::static_pointer_cast<const gpu::CapturedRun>(captured));
}

}  // namespace tandem::devices
