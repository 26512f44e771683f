#include "device/gpu/gpu_queue.h"

#include <fmt/format.h>

#include "tandem/config.h"
#include "tandem/error.h"

namespace tandem::devices::gpu {
namespace {

/// The host may have changed when captured commands run again.
void check_not_captured(const GpuTimeline& timeline, const char* what) {
  if (timeline.is_capturing()) throw Unimplemented(fmt::format("{} cannot be captured", what));
}

}  // namespace

void GpuQueue::copy(MemorySpace& to_space, void* to, const MemorySpace& from_space,
                    const void* from, size_t bytes) {
  if (bytes == 0) return;
  auto* const to_gpu = dynamic_cast<GpuMemory*>(&to_space);
  const auto* const from_gpu = dynamic_cast<const GpuMemory*>(&from_space);
  const bool within = to_gpu == from_gpu;
  if (!within) check_not_captured(*timeline_, "a copy from or to another memory");
  if (to_gpu != nullptr && from_gpu != nullptr && !to_gpu->driver().reaches(from_gpu->driver())) {
    return copy_through_host(*to_gpu, to, *from_gpu, from, bytes);
  }
  const CommandLabel label{.name = within ? "copy within" : "copy",
                           .bytes = static_cast<double>(bytes)};
  timeline_->issue(label, {}, [&](Stream& stream, uint64_t) {
    if (from_gpu == nullptr) {
      stream.write(to_gpu->locate(to), from, bytes);
    } else if (to_gpu == nullptr) {
      stream.read(to, from_gpu->locate(from), bytes);
    } else {
      stream.copy(to_gpu->locate(to), from_gpu->locate(from), bytes);
    }
  });
}

/// Devices of different drivers cannot wait for each other, so the host does.
void GpuQueue::copy_through_host(GpuMemory& to_space, void* to, const GpuMemory& from_space,
                                 const void* from, size_t bytes) {
  const auto until = core::Clock::now() + config::wait_deadline();
  const auto finish = [&](Stream& stream, const std::string& device) {
    if (wait_for(*stream.mark(nullptr), until)) return;
    throw DeadlineExceeded(
        fmt::format("{} did not finish a copy of {} bytes in time", device, bytes));
  };
  record().wait(config::wait_deadline());
  const auto landing = staging(bytes);
  const auto reading = from_space.driver().create_stream();
  reading->read(landing.get(), from_space.locate(from), bytes);
  finish(*reading, from_space.name());
  const auto writing = to_space.driver().create_stream();
  writing->write(to_space.locate(to), landing.get(), bytes);
  finish(*writing, to_space.name());
}

void GpuQueue::fill(void* to, uint8_t value, size_t bytes) {
  if (bytes == 0) return;
  timeline_->issue({.name = "fill"}, {}, [&](Stream& stream, uint64_t) {
    stream.fill(memory().locate(to), value, bytes);
  });
}

std::shared_ptr<char[]> GpuQueue::staging(size_t bytes) {
  return timeline_->memory().driver().staging(bytes);
}

/// Where the two devices cannot wait for each other, the host does.
void GpuQueue::wait(const Event& event) {
  if (!event.timeline()) return;
  check_not_captured(*timeline_, "a wait");
  const auto lock = issuing();
  if (const std::exception_ptr known = timeline_->note_wait(event)) {
    return timeline_->set_fault(known);
  }
  if (event.timeline() == timeline_) return;
  const auto other = std::dynamic_pointer_cast<GpuTimeline>(event.timeline());
  const std::exception_ptr loss = other ? other->loss() : nullptr;
  if (loss) return timeline_->set_fault(loss);
  const bool reached = other && memory().driver().reaches(other->memory().driver());
  reached ? timeline_->wait_for(event, *other) : event.wait(config::wait_deadline());
}

}  // namespace tandem::devices::gpu
