#include "tensor/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "device/transfer.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/row_slices.h"
#include "tensor/shared_stores.h"

namespace tandem {
namespace {

constexpr int64_t kAlignment = 64;            // Bytes between the starts of two variables.
constexpr int64_t kLeastCapacity = 16 << 10;  // Elements; a larger variable has a block of its own.

thread_local std::shared_ptr<Store> scope_store;

/// One store per device, for variables outside of any strategy.
std::shared_ptr<Store> store_of(const devices::DevicePtr& device) {
  static std::mutex mutex;
  static auto* stores = new std::map<uint64_t, std::shared_ptr<Store>>;
  std::lock_guard lock(mutex);
  auto& store = (*stores)[device->id()];
  if (!store) store = std::make_shared<Store>(std::vector{device});
  return store;
}

/// Values reach a component in order with the work that reads it.
void write_component(const std::shared_ptr<Buffer>& component, size_t offset,
                     const BodyPtr& value) {
  devices::transfer(*component->device(), static_cast<char*>(component->data()) + offset,
                    *value->device(), value->data(), value->bytes(),
                    std::make_shared<std::pair<BodyPtr, std::shared_ptr<Buffer>>>(value, component),
                    value->ready);
}

std::shared_ptr<Buffer> make_component(const devices::DevicePtr& device, size_t bytes, DType dtype,
                                       int64_t capacity) {
  if (auto mapped = MappedScope::memory_for(*device, bytes)) {
    return std::make_shared<Buffer>(device, mapped->data(), mapped);
  }
  auto component = std::make_shared<Buffer>(device, bytes, dtype, Shape{capacity});
  device->queue().fill(component->data(), 0, bytes);
  return component;
}

/// Whether a component takes no memory of its device.
bool is_mapped(const Buffer& component) { return component.bytes() == 0; }

}  // namespace

StoreBlock::StoreBlock(DType dtype, int64_t capacity,
                       const std::vector<devices::DevicePtr>& devices, uint64_t owner)
    : dtype_(dtype), capacity_(capacity), devices_(devices), owner_(owner) {
  const size_t bytes = static_cast<size_t>(capacity) * size_of(dtype);
  for (const auto& device : devices) {
    const bool shared = std::ranges::any_of(components_, [&](const auto& component) {
      return &component->device()->space() == &device->space();
    });
    if (shared) continue;
    components_.push_back(make_component(device, bytes, dtype, capacity));
  }
}

bool StoreBlock::is_in(const devices::MemorySpace& space) const {
  return std::ranges::any_of(
      components_, [&](const auto& component) { return &component->device()->space() == &space; });
}

void* StoreBlock::data(const devices::Device& device) const {
  for (const auto& component : components_) {
    if (&component->device()->space() == &device.space()) return component->data();
  }
  throw NotFound(fmt::format("store: a variable on {} is used on {}, which has no component of it",
                             components_[0]->device()->name(), device.name()));
}

std::shared_ptr<TensorBody> StoreBlock::lend(const devices::DevicePtr& device, int64_t offset,
                                             const Shape& shape) {
  const bool is_only_here =
      components_.size() == 1 && &components_[0]->device()->space() == &device->space();
  const bool is_read_at_once = device->works_on_threads() && device->space().host_readable();
  if (!is_only_here || !is_read_at_once) return nullptr;
  auto body = std::make_shared<TensorBody>();
  body->dtype = dtype_;
  body->shape = shape;
  char* data =
      static_cast<char*>(components_[0]->data()) + static_cast<size_t>(offset) * size_of(dtype_);
  body->buffer = std::make_shared<Buffer>(device, data, body->bytes(), shared_from_this());
  const std::lock_guard lock(loans_mutex_);
  loans_.emplace_back(body->buffer.get(), body->buffer);
  loan_count_.store(loans_.size(), std::memory_order_release);
  return body;
}

void StoreBlock::settle_loans() {
  if (loan_count_.load(std::memory_order_acquire) == 0) return;
  std::vector<std::shared_ptr<Buffer>> held;
  {
    const std::lock_guard lock(loans_mutex_);
    for (const auto& [buffer, loan] : loans_) {
      if (auto alive = loan.lock()) held.push_back(std::move(alive));
    }
  }
  for (const auto& loan : held) loan->settle();
}

void StoreBlock::forget_loan(const Buffer& loan) {
  const std::lock_guard lock(loans_mutex_);
  std::erase_if(loans_, [&](const auto& entry) { return entry.first == &loan; });
  loan_count_.store(loans_.size(), std::memory_order_release);
}

std::shared_ptr<StoreBlock> StoreBlock::slot(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (auto block = slots_[name].lock()) return block;
  std::erase_if(slots_, [](const auto& slot) { return slot.second.expired(); });
  const MappedScope scope(MappedScope::Kind::in_file, is_mapped(*components_[0]) ? 1 : 0);
  auto block = std::make_shared<StoreBlock>(dtype_, capacity_, devices_, owner_);
  block->variables_ = weak_from_this();
  block->slot_ = name;
  slots_[name] = block;
  return block;
}

int64_t StoreBlock::take(int64_t count, const std::string& name) {
  const int64_t step = std::max<int64_t>(1, kAlignment / static_cast<int64_t>(size_of(dtype_)));
  const int64_t offset = (used_ + step - 1) / step * step;
  // An empty variable takes an element too, so that no two begin at the same place.
  const int64_t taken = std::max<int64_t>(count, 1);
  if (offset + taken > capacity_) return -1;
  used_ = offset + taken;
  std::lock_guard lock(mutex_);
  names_[offset] = name;
  return offset;
}

std::string StoreBlock::name_at(int64_t offset) const {
  if (const auto variables = variables_.lock()) {
    return fmt::format("{} of {}", slot_, variables->name_at(offset));
  }
  std::lock_guard lock(mutex_);
  const auto name = names_.find(offset);
  return name == names_.end() ? "that is gone" : fmt::format("'{}'", name->second);
}

StoreRange Store::allocate(const std::string& name, DType dtype, int64_t count) {
  std::lock_guard lock(mutex_);
  std::erase_if(open_blocks_, [](const auto& block) { return block.expired(); });
  for (const auto& each : open_blocks_) {
    const auto block = each.lock();
    if (!block || block->dtype() != dtype) continue;
    if (const int64_t offset = block->take(count, name); offset >= 0) {
      return {block, offset, count};
    }
  }
  const int64_t capacity = std::max(count, kLeastCapacity);
  const MappedScope scope(MappedScope::Kind::in_file, least_bytes_in_files(*this));
  auto block = std::make_shared<StoreBlock>(dtype, capacity, devices_, owner_);
  const int64_t offset = block->take(count, name);
  if (capacity > count) open_blocks_.push_back(block);
  return {std::move(block), offset, count};
}

void StoreBlock::wait_for_devices() const {
  for (const auto& component : components_) {
    component->device()->queue().record().wait(config::wait_deadline());
  }
}

void write_range(const StoreRange& range, const Tensor& value) {
  const Tensor all = whole(value);
  range.block->wait_for_devices();
  all.body()->ready.wait(config::wait_deadline());
  issue_write(range, all);
}

void issue_write(const StoreRange& range, const Tensor& value) {
  range.block->settle_loans();
  const size_t offset = static_cast<size_t>(range.offset) * size_of(range.block->dtype());
  const Tensor all = whole(value);
  for (const auto& component : range.block->components()) {
    write_component(component, offset, all.body());
  }
}

namespace {

const std::shared_ptr<Buffer>& component_of(const StoreRange& range,
                                            const devices::Device& device) {
  const auto& components = range.block->components();
  const auto own = std::ranges::find_if(components, [&](const auto& component) {
    return &component->device()->space() == &device.space();
  });
  return own == components.end() ? components[0] : *own;
}

Tensor read_component(const StoreRange& range, const Shape& shape,
                      const std::shared_ptr<Buffer>& component) {
  const auto& device = component->device();
  auto body = new_body(device, range.block->dtype(), shape);
  const size_t offset = static_cast<size_t>(range.offset) * size_of(range.block->dtype());
  devices::Queue& queue = device->queue();
  body->ready = queue.submit([&] {
    queue.copy(device->space(), body->data(), device->space(),
               static_cast<const char*>(component->data()) + offset, body->bytes());
  });
  return Tensor(std::move(body));
}

}  // namespace

Tensor read_range(const StoreRange& range, const Shape& shape) {
  return read_component(range, shape, range.block->components()[0]);
}

StoreRange Store::allocate_for_each(const std::string& name, DType dtype, int64_t count) {
  const int64_t step = kAlignment / static_cast<int64_t>(size_of(dtype));
  const int64_t stride = (std::max<int64_t>(count, 1) + step - 1) / step * step;
  const int64_t all = stride * static_cast<int64_t>(by_replica_.size());
  // Beside each replica, also where the other variables live in one place.
  auto block = std::make_shared<StoreBlock>(dtype, all, by_replica_, owner_);
  return {.block = block, .offset = block->take(all, name), .count = count, .stride = stride};
}

void write_variable(const VariableBody& variable, const Tensor& value) {
  variable.range.block->wait_for_devices();
  value.body()->ready.wait(config::wait_deadline());
  write_first_value(variable, value);
}

void write_first_value(const VariableBody& variable, const Tensor& value) {
  const StoreRange& range = variable.range;
  if (range.is_same_for_all()) {
    issue_write(range, value);
    return;
  }
  const std::vector<char> zeros(static_cast<size_t>(range.count) * size_of(variable.dtype));
  const bool once = variable.aggregation == VariableAggregation::sum;
  for (size_t r = 0; r < variable.store->by_replica().size(); ++r) {
    StoreRange own = range;
    own.offset += static_cast<int64_t>(r) * range.stride;
    issue_write(
        own, once && r > 0 ? Tensor::copy_of(zeros.data(), variable.dtype, variable.shape) : value);
  }
}

Tensors read_own_values(const VariableBody& variable) {
  Tensors values;
  const auto& devices = variable.store->by_replica();
  for (size_t r = 0; r < devices.size(); ++r) {
    StoreRange own = variable.range;
    own.offset += static_cast<int64_t>(r) * variable.range.stride;
    values.push_back(on_device(read_component(own, variable.shape, component_of(own, *devices[r])),
                               devices::host_device()));
  }
  return values;
}

StoreScope::StoreScope(std::shared_ptr<Store> store)
    : former_(std::exchange(scope_store, std::move(store))) {}
StoreScope::~StoreScope() { scope_store = std::move(former_); }

size_t least_bytes_in_files() { return scope_store ? least_bytes_in_files(*scope_store) : 0; }

namespace {
thread_local const std::string* ban = nullptr;
}

CreationBan::CreationBan(std::string reason)
    : reason_(std::move(reason)), former_(std::exchange(ban, &reason_)) {}
CreationBan::~CreationBan() { ban = former_; }

void check_creation(const std::string& variable) {
  if (ban == nullptr) return;
  throw FailedPrecondition(fmt::format("variable '{}': {}", variable, *ban));
}

std::shared_ptr<Store> creation_store(const std::string& name, DType dtype, const Shape& shape) {
  return scope_store ? home_of(scope_store, name) : store_of(variable_device(name, dtype, shape));
}

Variable slot_variable(const Variable& variable, const std::string& name) {
  auto body = std::make_shared<VariableBody>(*variable.body());
  body->name += "/" + name;
  body->trainable = false;
  body->range = body->range.slot(name);
  return Variable(std::move(body));
}

}  // namespace tandem
