/// The queue of a GPU, and what kernels need to issue their commands on it.
#pragma once

#include "device/gpu/compiler.h"
#include "device/gpu/gpu_timeline.h"
#include "device/queue.h"

namespace tandem::devices::gpu {

class GpuQueue final : public Queue {
 public:
  GpuQueue(std::shared_ptr<GpuTimeline> timeline, std::shared_ptr<Compiler> compiler)
      : timeline_(std::move(timeline)), compiler_(std::move(compiler)) {}
  ~GpuQueue() override { timeline_->stop(); }

  bool immediate() const override { return false; }
  void hold(std::shared_ptr<const void> what) override {
    timeline_->is_capturing() ? timeline_->hold_captured(std::move(what))
                              : timeline_->hold(std::move(what));
  }
  void copy(MemorySpace& to_space, void* to, const MemorySpace& from_space, const void* from,
            size_t bytes) override;
  void fill(void* to, uint8_t value, size_t bytes) override;
  std::shared_ptr<char[]> staging(size_t bytes) override;
  Event record() override { return timeline_->last(); }
  void undo_on_fault(const UndoFn& undo) override { timeline_->undo_on_fault(undo); }
  void wait(const Event& event) override;

  /// Who makes kernels for the device.
  Compiler& compiler() const { return *compiler_; }
  GpuTimeline& timeline() { return *timeline_; }
  const GpuMemory& memory() const { return timeline_->memory(); }

 protected:
  std::unique_lock<Timeline::Issuing> issuing() override {
    return std::unique_lock(timeline_->issuing());
  }

 private:
  void copy_through_host(GpuMemory& to_space, void* to, const GpuMemory& from_space,
                         const void* from, size_t bytes);

  const std::shared_ptr<GpuTimeline> timeline_;
  const std::shared_ptr<Compiler> compiler_;
};

}  // namespace tandem::devices::gpu
