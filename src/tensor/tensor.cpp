// The handle Tensor over its body, buffers and their loans, and copies between memory spaces. A
// tensor's memory never changes once it is written; where it seems to, as in a variable that is
// read and then assigned, the reader gets a copy before the write (Buffer::settle).
#include "tandem/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <ostream>
#include <utility>

#include "core/fork.h"
#include "core/interruptible.h"
#include "core/tensor_type.h"
#include "device/copies.h"
#include "device/transfer.h"
#include "profile/span.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/body.h"
#include "tensor/print.h"
#include "tensor/row_slices.h"
#include "tensor/shared_stores.h"
#include "tensor/store.h"

namespace tandem {
namespace {

/// Where a queue runs late, the work on it holds memory that is free once it has run.
devices::Allocator::Allocation* allocate(devices::Device& device, size_t bytes, DType dtype,
                                         const Shape& shape) {
  core::watch_forks();
  core::check_not_forked();
  try {
    return device.allocator().allocate(bytes, dtype, shape);
  } catch (const ResourceExhausted&) {
    if (device.works_on_threads()) throw;
  }
  device.finish(config::wait_deadline());
  return device.allocator().allocate(bytes, dtype, shape);
}

}  // namespace

Buffer::Buffer(devices::DevicePtr device, size_t bytes, DType dtype, const Shape& shape)
    : device_(std::move(device)),
      block_(allocate(*device_, bytes, dtype, shape)),
      data_(block_->data) {}

Buffer::Buffer(devices::DevicePtr device, void* data, std::shared_ptr<const void> owner)
    : device_(std::move(device)), data_(data), owner_(std::move(owner)) {}

Buffer::Buffer(devices::DevicePtr device, void* data, size_t bytes,
               std::shared_ptr<StoreBlock> lender)
    : device_(std::move(device)), data_(data), borrowed_(true) {
  loan_.emplace();
  loan_->bytes = bytes;
  loan_->lender = std::move(lender);
}

Buffer::~Buffer() {
  if (is_borrowed()) loan_->lender->forget_loan(*this);
  if (block_ != nullptr) device_->allocator().free(block_);
}

void Buffer::settle() const {
  const std::unique_lock alone(loan_->in_use, config::wait_deadline());
  if (!alone) {
    throw DeadlineExceeded(fmt::format(
        "variable: another thread read its value for more than {:.3g} s; it cannot be written yet",
        std::chrono::duration<double>(config::wait_deadline()).count()));
  }
  if (!is_borrowed()) return;
  const auto bytes = static_cast<int64_t>(loan_->bytes);
  block_ = allocate(*device_, loan_->bytes, DType::uint8, Shape{bytes});
  std::memcpy(block_->data, data_, loan_->bytes);
  data_ = block_->data;
  borrowed_.store(false, std::memory_order_release);
  std::exchange(loan_->lender, nullptr)->forget_loan(*this);
}

std::shared_ptr<TensorBody> new_body(const devices::DevicePtr& device, DType dtype,
                                     const Shape& shape) {
  auto body = std::make_shared<TensorBody>();
  body->dtype = dtype;
  body->shape = shape;
  if (auto mapped = MappedScope::memory_for(*device, body->bytes())) {
    body->buffer = std::make_shared<Buffer>(device, mapped->data(), mapped);
  } else {
    body->buffer = std::make_shared<Buffer>(device, body->bytes(), dtype, shape);
  }
  return body;
}

bool is_sole_owner(const std::shared_ptr<TensorBody>& body) {
  if (body.use_count() != 1 || body->buffer.use_count() != 1) return false;
#if !defined(__SANITIZE_THREAD__)  // The sanitizer does not know fences.
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return true;
}

void check_has_value(const TensorBody& body, const char* needed_for) {
  if (body.trace == 0) return;
  throw FailedPrecondition(fmt::format(
      "{}: the value of a tensor {} does not exist while the function is traced; return it "
      "from the function and read it there",
      needed_for, TensorType{body.dtype, body.shape}.str()));
}

namespace {

Tensor copy_between(const BodyPtr& from, const devices::DevicePtr& device) {
  auto body = new_body(device, from->dtype, from->shape);
  body->ready =
      devices::transfer(*device, body->data(), *from->device(), from->data(), from->bytes(),
                        std::make_shared<std::pair<BodyPtr, BodyPtr>>(from, body), from->ready);
  return Tensor(std::move(body));
}

}  // namespace

Tensor on_device(const Tensor& tensor, const devices::DevicePtr& device) {
  const BodyPtr& body = tensor.body();
  if (body->slices) return on_device(whole(tensor), device);
  if (body->device() == device) return tensor;
  if (&body->device()->space() != &device->space()) return copy_between(body, device);
  return tensor;
}

void check_input_copy(const TensorBody& body, const devices::Device& device, const char* op) {
  const bool is_number = body.shape.rank() == 0 && body.device()->space().host_readable();
  if (is_number) return;
  devices::check_input_copy(op, body.dtype, body.shape, *body.device(), device);
}

Tensor input_on_device(const Tensor& input, const devices::DevicePtr& device, const char* op) {
  const BodyPtr& body = input.body();
  if (body->device() == device || &body->device()->space() == &device->space()) return input;
  check_input_copy(*body, *device, op);
  return copy_between(body, device);
}

namespace {

void check_known(const Shape& shape) {
  if (!shape.is_symbolic()) return;
  throw InvalidArgument(fmt::format("tensor: {} has a negative size", shape.str()));
}

}  // namespace

Tensor Tensor::copy_of(const void* data, DType dtype, const Shape& shape) {
  check_known(shape);
  auto body = new_body(devices::host_device(), dtype, shape);
  if (body->bytes() > 0) std::memcpy(body->data(), data, body->bytes());
  return Tensor(std::move(body));
}

Tensor Tensor::number_of(const void* number, DType dtype) {
  auto body = new_body(devices::host_device(), dtype, {});
  body->is_number = true;
  std::memcpy(body->data(), number, body->bytes());
  return Tensor(std::move(body));
}

Tensor Tensor::wrap(const void* data, DType dtype, const Shape& shape,
                    std::shared_ptr<const void> owner) {
  check_known(shape);
  auto body = std::make_shared<TensorBody>();
  body->dtype = dtype;
  body->shape = shape;
  body->buffer =
      std::make_shared<Buffer>(devices::host_device(), const_cast<void*>(data), std::move(owner));
  return Tensor(std::move(body));
}

const TensorBody& Tensor::checked() const {
  if (!body_) throw FailedPrecondition("tensor: this Tensor is empty; assign one before using it");
  return *body_;
}

DType Tensor::dtype() const { return checked().dtype; }
const Shape& Tensor::shape() const { return checked().shape; }
bool Tensor::is_symbolic() const { return checked().trace != 0; }

const std::string& Tensor::device() const {
  check_has_value(checked(), "device");
  if (body_->slices) return body_->slices->values.device();
  return body_->device()->name();
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  if (is_symbolic()) {
    throw FailedPrecondition(fmt::format(
        "rows: they share the memory of a value, and {} has none while the function is traced; "
        "use slice or strided_slice",
        type_of(*this).str()));
  }
  if (rank() == 0 || begin < 0 || end < begin || end > shape()[0]) {
    throw InvalidArgument(fmt::format("rows: [{}, {}) is not within the leading axis of {}", begin,
                                      end, shape().str()));
  }
  if (body_->slices) return whole(*this).rows(begin, end);
  auto part = std::make_shared<TensorBody>(*body_);
  part->shape = shape().with(0, end - begin);
  if (shape()[0] > 0) {
    part->offset += body_->bytes() / static_cast<size_t>(shape()[0]) * static_cast<size_t>(begin);
  }
  return Tensor(std::move(part));
}

void Tensor::copy_to_host(void* to) const {
  const TensorBody& body = checked();
  check_has_value(body, "reading");
  if (body.slices) return whole(*this).copy_to_host(to);
  const core::InterruptibleWaits interruptible;
  body.ready.wait(config::wait_deadline());
  devices::read_in_chunks(*body.device(), body.data(), body.bytes(),
                          [&](const char* chunk, size_t bytes) {
                            std::memcpy(to, chunk, bytes);
                            to = static_cast<char*>(to) + bytes;
                          });
}

void Tensor::check_count(size_t given, const Shape& shape) {
  if (shape.is_symbolic() || static_cast<int64_t>(given) != shape.count()) {
    throw InvalidArgument(fmt::format("tensor: {} values do not fill {}", given, shape.str()));
  }
}

void Tensor::check_single() const {
  if (shape().total_extent() == 1) return;
  throw InvalidArgument(fmt::format(
      "item: a tensor of shape {} has {} elements and item() reads one; use to_vector() "
      "for all of them or at() for one",
      shape().str(), shape().count().str()));
}

void Tensor::check_dtype(DType wanted) const {
  check_has_value(checked(), "reading");
  if (body_->dtype == wanted) return;
  throw InvalidArgument(fmt::format("tensor: read as {}, but it is {}; use cast", name_of(wanted),
                                    name_of(body_->dtype)));
}

Tensor Tensor::element(std::span<const int64_t> index) const {
  bool within = index.size() == static_cast<size_t>(rank());
  int64_t at = 0;
  for (int axis = 0; within && axis < rank(); ++axis) {
    const int64_t i = index[static_cast<size_t>(axis)];
    within = i >= 0 && i < shape()[axis];
    at = at * shape()[axis] + i;
  }
  if (!within) {
    throw InvalidArgument(
        fmt::format("tensor: index [{}] is not within {}", fmt::join(index, ","), shape().str()));
  }
  auto part = std::make_shared<TensorBody>(*body_);
  part->shape = {};
  part->offset += static_cast<size_t>(at) * size_of(dtype());
  return Tensor(std::move(part));
}

std::string Tensor::str() const {
  if (!defined()) return "Tensor()";
  const std::string type = fmt::format("shape={}, dtype={}", shape().str(), name_of(dtype()));
  if (is_symbolic()) return fmt::format("Tensor({}, traced)", type);
  constexpr std::string_view kOpening = "Tensor(";
  return fmt::format("{}{}, {}, device={})", kOpening, values_text(*this, kOpening.size()), type,
                     device());
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << tensor.str();
}

int64_t internal::to_int64(uint64_t number) {
  if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return static_cast<int64_t>(number);
  }
  throw InvalidArgument(fmt::format("tensor: {} is more than int64 holds", number));
}

void internal::throw_ragged(std::span<const int64_t> place, int64_t elements, int64_t wanted) {
  throw InvalidArgument(
      fmt::format("tensor: the list at [{}] has {} elements, those before it have {}",
                  fmt::join(place, ","), elements, wanted));
}

}  // namespace tandem
