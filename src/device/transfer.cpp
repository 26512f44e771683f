#include "device/transfer.h"

#include <algorithm>
#include <cstring>

#include "device/copies.h"
#include "tandem/config.h"

namespace tandem::devices {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

/// Two pieces of the host's memory that are used in turn.
class Ring {
 public:
  Ring(Queue& queue, size_t bytes) : queue_(queue), chunk_bytes_(std::min(bytes, kChunkBytes)) {}

  struct Chunk {
    std::shared_ptr<char[]> data{};
    Event done{};  // It may be used again.
  };

  /// Waits until the commands that used it two turns ago have run.
  Chunk& next() {
    Chunk& chunk = chunks_[turn_++ % 2];
    chunk.done.wait(config::wait_deadline());
    if (!chunk.data) chunk.data = queue_.staging(chunk_bytes_);
    return chunk;
  }

 private:
  Queue& queue_;
  const size_t chunk_bytes_;
  Chunk chunks_[2];
  size_t turn_ = 0;
};

}  // namespace

Event transfer(Device& to_device, void* to, Device& from_device, const void* from, size_t bytes,
               std::shared_ptr<const void> keep, const Event& value, Queue* on) {
  if (bytes == 0) return value;
  if (&to_device.space() != &from_device.space()) {
    count_copy(from_device.name(), to_device.name(), bytes);
  }
  Device& issuer = to_device.works_on_threads() ? from_device : to_device;
  Queue& queue = on != nullptr ? *on : issuer.queue();
  const Event copied = queue.submit([&] {
    if (&issuer != &from_device) queue.wait(from_device.queue().record());
    queue.use(value);
    queue.copy(to_device.space(), to, from_device.space(), from, bytes);
    queue.hold(std::move(keep));
  });
  if (&issuer == &to_device) return copied;
  to_device.queue().wait(copied);
  return {};
}

void read_in_chunks(Device& device, const void* from, size_t bytes,
                    const std::function<void(const char* chunk, size_t bytes)>& take) {
  if (bytes == 0) return;
  if (device.space().host_readable()) {
    device.queue().record().wait(config::wait_deadline());
    take(static_cast<const char*>(from), bytes);
    return;
  }
  count_copy(device.name(), kHostName, bytes);
  Queue& queue = device.queue();
  Ring ring(queue, bytes);
  const auto size_at = [&](size_t begin) { return std::min(kChunkBytes, bytes - begin); };
  const auto fetch = [&](size_t begin) -> Ring::Chunk& {
    Ring::Chunk& chunk = ring.next();
    queue.submit([&] {
      queue.copy(host_memory(), chunk.data.get(), device.space(),
                 static_cast<const char*>(from) + begin, size_at(begin));
      queue.hold(chunk.data);  // After a deadline this function's own memory is gone.
      chunk.done = queue.record();
    });
    return chunk;
  };
  Ring::Chunk* current = &fetch(0);
  for (size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    const bool more = begin + kChunkBytes < bytes;
    Ring::Chunk* const following = more ? &fetch(begin + kChunkBytes) : nullptr;
    current->done.wait(config::wait_deadline());
    take(current->data.get(), size_at(begin));
    current = following;
  }
}

void write_in_chunks(Device& device, void* to, size_t bytes,
                     const std::function<void(char* chunk, size_t bytes)>& give) {
  if (bytes == 0) return;
  if (device.space().host_readable()) {
    device.queue().record().wait(config::wait_deadline());
    give(static_cast<char*>(to), bytes);
    return;
  }
  count_copy(kHostName, device.name(), bytes);
  Queue& queue = device.queue();
  Ring ring(queue, bytes);
  for (size_t begin = 0; begin < bytes; begin += kChunkBytes) {
    const size_t size = std::min(kChunkBytes, bytes - begin);
    Ring::Chunk& chunk = ring.next();
    give(chunk.data.get(), size);
    queue.submit([&] {
      queue.copy(device.space(), static_cast<char*>(to) + begin, host_memory(), chunk.data.get(),
                 size);
      queue.hold(chunk.data);
      chunk.done = queue.record();
    });
  }
}

}  // namespace tandem::devices
