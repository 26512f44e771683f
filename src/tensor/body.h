/// What a Tensor handle points to.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "device/logical_device.h"
#include "tandem/tensor.h"

namespace tandem {

class StoreBlock;

/// Memory of one device, or the user's own (then there is no block, and `owner` keeps it alive), or
/// borrowed: a variable's own memory, which a read shares until somebody writes the variable.
class Buffer {
 public:
  Buffer(devices::DevicePtr device, size_t bytes, DType dtype, const Shape& shape);
  Buffer(devices::DevicePtr device, void* data, std::shared_ptr<const void> owner);
  /// Borrows `bytes` at `data` of `lender`, which settles what it has lent before it is written.
  Buffer(devices::DevicePtr device, void* data, size_t bytes, std::shared_ptr<StoreBlock> lender);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Memory that stays as it is. What is borrowed is copied first.
  void* data() const {
    if (is_borrowed()) settle();
    return data_;
  }
  const devices::DevicePtr& device() const { return device_; }

  /// The bytes of memory that it has of its own.
  size_t bytes() const { return block_ == nullptr ? 0 : block_->bytes; }

  /// A value that is borrowed can be read where it is while a pin is held, which keeps writers
  /// waiting. One thread takes one pin of a buffer.
  using Pin = std::shared_lock<std::shared_timed_mutex>;
  bool is_borrowed() const { return borrowed_.load(std::memory_order_acquire); }
  Pin pin() const { return Pin(loan_->in_use); }
  bool is_held_by(const Pin& pin) const { return pin.mutex() == &loan_->in_use; }
  void* pinned_data() const { return data_; }

  /// Copies what is borrowed, once nobody pins it. Throws DeadlineExceeded when somebody does not
  /// let go of it.
  void settle() const;

 private:
  struct Loan {
    std::shared_timed_mutex in_use;
    size_t bytes;
    std::shared_ptr<StoreBlock> lender;
  };

  const devices::DevicePtr device_;
  mutable devices::Allocator::Allocation* block_ = nullptr;
  mutable void* data_;
  std::shared_ptr<const void> owner_;
  mutable std::atomic<bool> borrowed_{false};
  mutable std::optional<Loan> loan_;  // The loan of a buffer that was made as borrowed.
};

struct TensorBody {
  DType dtype{};
  Shape shape;
  bool is_number = false;  ///< A plain number, which takes the dtype of the tensors beside it.

  // A value that exists, or will once `ready`.
  std::shared_ptr<Buffer> buffer;
  size_t offset = 0;
  devices::Event ready;

  // A value that is zero but for some rows, and has no memory of its own: see row_slices.h.
  std::shared_ptr<const RowSlices> slices;

  // A value of a trace.
  uint64_t trace = 0;  ///< The trace that the value is of; 0 outside of any.
  int value = -1;

  void* data() const { return static_cast<char*>(buffer->data()) + offset; }
  const devices::DevicePtr& device() const { return buffer->device(); }
  size_t bytes() const { return static_cast<size_t>(shape.total_extent()) * size_of(dtype); }
};

using BodyPtr = std::shared_ptr<const TensorBody>;

/// A body with memory of its own on `device`, not yet written.
std::shared_ptr<TensorBody> new_body(const devices::DevicePtr& device, DType dtype,
                                     const Shape& shape);

/// True when nobody but the caller holds the body or a view of its memory, and what others wrote or
/// read is over.
bool is_sole_owner(const std::shared_ptr<TensorBody>& body);

/// The same value on another device: shared within one memory space, copied between two.
Tensor on_device(const Tensor& tensor, const devices::DevicePtr& device);

/// A value is to be copied as an input of `op`: warns or throws as the device policy says.
void check_input_copy(const TensorBody& body, const devices::Device& device, const char* op);

/// As on_device for an input of `op`, where the device policy allows the copy.
Tensor input_on_device(const Tensor& input, const devices::DevicePtr& device, const char* op);

/// Throws FailedPrecondition where a value is needed and `body` is of a trace.
void check_has_value(const TensorBody& body, const char* needed_for);

}  // namespace tandem
