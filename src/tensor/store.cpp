#include "tensor/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "device/transfer.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/late_values.h"
#include "tensor/part_runs.h"
#include "tensor/row_slices.h"
#include "tensor/shared_stores.h"
#include "tensor/unmade_values.h"

namespace tandem {
namespace {

constexpr int64_t kAlignment = 64;            // Bytes between the starts of two variables.
constexpr int64_t kLeastCapacity = 16 << 10;  // Elements; a larger variable has a block of its own.
constexpr int64_t kLeastLate = 1 << 10;  // The same of late values on devices that are no CPUs.

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
  if (MappedScope::is_on_demand(*device, bytes)) {
    return std::make_shared<Buffer>(device, nullptr, nullptr);
  }
  auto component = std::make_shared<Buffer>(device, bytes, dtype, Shape{capacity});
  device->queue().fill(component->data(), 0, bytes);
  return component;
}

/// Whether a component takes no memory of its device.
bool is_mapped(const Buffer& component) { return component.bytes() == 0; }

}  // namespace

StoreBlock::StoreBlock(DType dtype, int64_t capacity,
                       const std::vector<devices::DevicePtr>& devices, uint64_t owner,
                       const VariableCut& cut)
    : dtype_(dtype), capacity_(capacity), devices_(devices), owner_(owner), cut_(cut) {
  const size_t bytes = static_cast<size_t>(capacity) * size_of(dtype);
  for (size_t i = 0; i < devices.size(); ++i) {
    const devices::DevicePtr& device = devices[i];
    const int part = part_of_replica(static_cast<int>(i));
    if (component_in(device->space(), part) != nullptr) continue;
    components_.push_back(make_component(device, bytes, dtype, capacity));
    component_parts_.push_back(part);
    if (MappedScope::is_on_demand(*device, bytes)) has_memory_ = false;
  }
}

void StoreBlock::take_memory() const {
  if (has_memory()) return;
  const std::lock_guard lock(memory_mutex_);
  if (has_memory()) return;
  const MappedScope own(MappedScope::Kind::sparse, 0);
  std::vector<std::shared_ptr<Buffer>> taken;
  for (const std::shared_ptr<Buffer>& component : components_) {
    taken.push_back(make_component(component->device(), bytes(), dtype_, capacity_));
  }
  std::ranges::move(taken, components_.begin());
  has_memory_.store(true, std::memory_order_release);
}

void StoreBlock::give_memory_back() {
  if (!has_memory()) return;
  wait_for_devices();
  const std::lock_guard lock(memory_mutex_);
  for (std::shared_ptr<Buffer>& component : components_) {
    component = std::make_shared<Buffer>(component->device(), nullptr, nullptr);
  }
  has_memory_.store(false, std::memory_order_release);
}

void StoreBlock::move_to(const devices::DevicePtr& device) {
  for (const std::shared_ptr<StoreBlock>& slot : slots()) {
    if (!slot->has_memory()) slot->move_to(device);
  }
  devices_ = {device};
  components_ = {std::make_shared<Buffer>(device, nullptr, nullptr)};
  component_parts_ = {0};
}

std::shared_ptr<Buffer> StoreBlock::component_of_part(int part) const {
  const auto found = std::ranges::find(component_parts_, part);
  return found == component_parts_.end()
             ? nullptr
             : components_[static_cast<size_t>(found - component_parts_.begin())];
}

const Buffer* StoreBlock::component_in(const devices::MemorySpace& space, int part) const {
  for (size_t i = 0; i < components_.size(); ++i) {
    if (&components_[i]->device()->space() == &space && component_parts_[i] == part) {
      return components_[i].get();
    }
  }
  return nullptr;
}

bool StoreBlock::is_in(const devices::MemorySpace& space) const {
  return std::ranges::any_of(
      components_, [&](const auto& component) { return &component->device()->space() == &space; });
}

void* StoreBlock::data(const devices::Device& device, int part) const {
  make_late_value(*this);
  take_memory();
  if (const Buffer* component = component_in(device.space(), part)) {
    make_values(*this);
    return component->data();
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
  make_late_value(*this);
  make_values(*this);
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
  make_late_value(*this);
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
  using enum MappedScope::Kind;
  const bool is_late = is_of_late_values(*this);
  const MappedScope scope(is_late ? sparse : in_file,
                          is_late || is_mapped(*components_[0]) ? 1 : 0);
  auto block = std::make_shared<StoreBlock>(dtype_, capacity_, devices_, owner_, cut_);
  if (is_late) {
    note_untouched_slot(block);
  } else {
    note_unmade({.block = block, .offset = 0, .count = capacity_}, nullptr);
  }
  return add_slot(name, std::move(block));
}

std::shared_ptr<StoreBlock> StoreBlock::slot_in_parts(
    const std::string& name, const VariableCut& cut,
    const std::vector<devices::DevicePtr>& by_replica) {
  std::lock_guard lock(mutex_);
  if (auto block = slots_[name].lock()) return block;
  return add_slot(
      name, std::make_shared<StoreBlock>(dtype_, capacity_ / cut.parts, by_replica, owner_, cut));
}

std::shared_ptr<StoreBlock> StoreBlock::add_slot(const std::string& name,
                                                 std::shared_ptr<StoreBlock> block) {
  std::erase_if(slots_, [](const auto& slot) { return slot.second.expired(); });
  block->variables_ = weak_from_this();
  block->slot_ = name;
  slots_[name] = block;
  return block;
}

std::vector<std::shared_ptr<StoreBlock>> StoreBlock::slots() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<StoreBlock>> held;
  for (const auto& [name, slot] : slots_) {
    if (auto block = slot.lock()) held.push_back(std::move(block));
  }
  return held;
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
  // A part of a variable begins within it.
  const auto behind = names_.upper_bound(offset);
  return behind == names_.begin() ? "that is gone" : fmt::format("'{}'", std::prev(behind)->second);
}

StoreRange Store::allocate(const std::string& name, DType dtype, int64_t count,
                           const VariableCut& cut) {
  const bool is_in_pages = devices_[0]->works_on_threads();
  const int64_t least_late = (is_in_pages ? kLeastCapacity : kLeastLate) / cut.parts;
  const bool is_late = LateValueScope::is_open() && count >= least_late;
  std::lock_guard lock(mutex_);
  std::erase_if(open_blocks_, [](const auto& block) { return block.expired(); });
  for (const auto& each : open_blocks_) {
    const auto block = each.lock();
    if (is_late || !block || block->dtype() != dtype || block->parts() != cut.parts) continue;
    if (const int64_t offset = block->take(count, name); offset >= 0) {
      return {block, offset, count};
    }
  }
  const int64_t capacity = is_late ? count : std::max(count, kLeastCapacity / cut.parts);
  using enum MappedScope::Kind;
  const MappedScope scope(is_late ? sparse : in_file, is_late ? 1 : least_bytes_in_files(*this));
  const auto& devices = cut.is_whole() ? devices_ : by_replica_;
  auto block = new_block(dtype, capacity, devices, cut);
  const int64_t offset = block->take(count, name);
  if (capacity > count) open_blocks_.push_back(block);
  return {std::move(block), offset, count};
}

StoreRange Store::allocate_for_parts(const std::string& name, DType dtype, int64_t count,
                                     int parts) {
  const int64_t part = VariableCut{.parts = parts}.part_of(Shape{count}).total_extent();
  const int64_t capacity = part * parts;
  std::lock_guard lock(mutex_);
  auto block = new_block(dtype, capacity, devices_);
  const int64_t offset = block->take(count, name);
  return {std::move(block), offset, count};
}

std::shared_ptr<StoreBlock> Store::new_block(DType dtype, int64_t capacity,
                                             const std::vector<devices::DevicePtr>& devices,
                                             const VariableCut& cut) {
  auto block = std::make_shared<StoreBlock>(dtype, capacity, devices, owner_, cut);
  std::erase_if(blocks_, [](const auto& known) { return known.expired(); });
  blocks_.push_back(block);
  return block;
}

namespace {

/// A CPU's late value has memory of the system's, from when it is there.
size_t held_bytes_of(const std::shared_ptr<StoreBlock>& block, const Buffer& component) {
  const bool is_in_pages = is_mapped(component) && component.device()->works_on_threads();
  if (!is_in_pages || !is_of_late_values(*block)) return component.bytes();
  const StoreRange all{.block = block, .offset = 0, .count = block->capacity()};
  return is_waiting_for_value(*block) || is_kept_elsewhere(all) ? 0 : block->bytes();
}

}  // namespace

std::map<std::string, HeldBytes> Store::held_bytes() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, HeldBytes> held;
  for (const auto& each : blocks_) {
    const auto block = each.lock();
    if (!block) continue;
    for (const auto& component : block->components()) {
      held[component->device()->name()].variables += held_bytes_of(block, *component);
    }
    for (const auto& slot : block->slots()) {
      for (const auto& component : slot->components()) {
        held[component->device()->name()].slots += held_bytes_of(slot, *component);
      }
    }
  }
  return held;
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
  if (!range.block->has_memory() && range.block->parts() == 1 &&
      range.count == range.block->capacity()) {
    return keep_on_host(*range.block, on_device(whole(value), devices::host_device()));
  }
  forget_unmade(range);
  range.block->settle_loans();
  const size_t offset = static_cast<size_t>(range.offset) * size_of(range.block->dtype());
  const Tensor all = whole(value);
  range.block->take_memory();
  const auto& components = range.block->components();
  for (size_t i = 0; i < components.size(); ++i) {
    const bool is_of_part =
        range.block->parts() == 1 || range.block->part_of_component(i) == range.part;
    if (is_of_part) write_component(components[i], offset, all.body());
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
  make_values(range);
  const auto& device = component->device();
  make_late_value(*range.block);
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
  make_late_value(*range.block);
  range.block->take_memory();
  return read_component(range, shape, range.block->components()[0]);
}

StoreRange Store::allocate_for_each(const std::string& name, DType dtype, int64_t count) {
  const int64_t step = kAlignment / static_cast<int64_t>(size_of(dtype));
  const int64_t stride = (std::max<int64_t>(count, 1) + step - 1) / step * step;
  const int64_t all = stride * static_cast<int64_t>(by_replica_.size());
  std::lock_guard lock(mutex_);
  // Beside each replica, also where the other variables live in one place.
  auto block = new_block(dtype, all, by_replica_);
  return {.block = block, .offset = block->take(all, name), .count = count, .stride = stride};
}

void write_variable(const VariableBody& variable, const Tensor& value) {
  variable.range.block->wait_for_devices();
  value.body()->ready.wait(config::wait_deadline());
  write_first_value(variable, value);
}

namespace {

void write_parts(const VariableBody& variable, const Tensor& value) {
  const PartRuns runs(variable);
  std::vector<char> all = runs.new_whole();
  value.copy_to_host(all.data());
  for (int part = 0; part < variable.cut.parts; ++part) {
    std::vector<char> own = runs.new_part();
    runs.for_each(part, [&](size_t from, size_t to, size_t bytes) {
      std::copy_n(all.data() + from, bytes, own.data() + to);
    });
    StoreRange range = variable.range;
    range.part = part;
    issue_write(range, Tensor::copy_of(own.data(), variable.dtype, runs.part_shape()));
  }
}

}  // namespace

bool has_all_parts(const VariableBody& variable) {
  for (int part = 0; part < variable.cut.parts; ++part) {
    if (!variable.cut.is_whole() && !variable.range.block->component_of_part(part)) return false;
  }
  return true;
}

Tensor read_joined(const VariableBody& variable) {
  const PartRuns runs(variable);
  if (!has_all_parts(variable)) {
    throw FailedPrecondition(
        fmt::format("variable '{}': other processes keep parts of it; read it inside strategy.run",
                    variable.name));
  }
  make_late_value(*variable.range.block);
  variable.range.block->take_memory();
  std::vector<char> all = runs.new_whole();
  std::vector<char> own = runs.new_part();
  for (int part = 0; part < variable.cut.parts; ++part) {
    read_component(variable.range, runs.part_shape(), variable.range.block->component_of_part(part))
        .copy_to_host(own.data());
    runs.for_each(part, [&](size_t to, size_t from, size_t bytes) {
      std::copy_n(own.data() + from, bytes, all.data() + to);
    });
  }
  return Tensor::copy_of(all.data(), variable.dtype, variable.shape);
}

void write_first_value(const VariableBody& variable, const Tensor& value) {
  const StoreRange& range = variable.range;
  if (range.is_same_for_all()) {
    issue_write(range, value);
    return;
  }
  if (!variable.cut.is_whole() && !range.block->has_memory()) {
    keep_on_host(variable, on_device(value, devices::host_device()));
    return;
  }
  if (!variable.cut.is_whole()) {
    write_parts(variable, on_device(value, devices::host_device()));
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

bool makes_values_late() { return scope_store && makes_values_late(*scope_store); }

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
  if (body->slot_cut.is_whole()) {
    body->range = body->range.slot(name);
  } else {
    body->cut = std::exchange(body->slot_cut, {});
    body->range = {body->range.block->slot_in_parts(name, body->cut, body->store->by_replica()), 0,
                   body->cut.part_of(body->shape).total_extent()};
  }
  return Variable(std::move(body));
}

Variable view_in_parts(const Variable& variable) {
  auto body = std::make_shared<VariableBody>(*variable.body());
  body->cut = body->slot_cut;
  body->range.count = body->cut.part_of(body->shape).total_extent();
  // A part that is all behind the end is seen at the end. What is written there does not stay:
  // other processes have these elements, and tell what they make of them.
  constexpr int64_t kChunk = 64;
  const int64_t last = std::max<int64_t>(body->shape.total_extent() - 1, 0) / kChunk * kChunk;
  body->range.offset += std::min(body->cut.first * body->range.count, last);
  body->range.stride = body->range.count;
  return Variable(std::move(body));
}

}  // namespace tandem
