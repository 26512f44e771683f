#include "tensor/late_values.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace tandem {
namespace {

/// A block whose value is late, or was. A slot is zero: for it nothing is made.
struct LateBlock {
  const StoreBlock* block;
  std::weak_ptr<StoreBlock> alive;
  LateValue value;
  VariableBody variable;  // Without its block and store.
  bool is_waiting = true;
};

// Held while a value is made, which reads and writes the store itself.
std::recursive_mutex mutex;
std::atomic<int> waiting{0};  // Most programs have none.
thread_local LateValueScope* scope = nullptr;

std::vector<LateBlock>& blocks() {
  static auto* blocks = new std::vector<LateBlock>;
  return *blocks;
}

std::vector<std::weak_ptr<Store>>& stores() {
  static auto* stores = new std::vector<std::weak_ptr<Store>>;
  return *stores;
}

/// To be called with the mutex held.
LateBlock* find(const StoreBlock& block) {
  const auto found = std::ranges::find_if(blocks(), [&](const LateBlock& late) {
    return late.block == &block && !late.alive.expired();
  });
  return found == blocks().end() ? nullptr : &*found;
}

VariableBody without_block(VariableBody variable) {
  variable.range.block.reset();
  variable.store.reset();
  return variable;
}

void end_waiting(LateBlock& late) {
  if (std::exchange(late.is_waiting, false)) --waiting;
}

void add(const std::shared_ptr<StoreBlock>& block, const LateValue& value,
         const VariableBody& variable) {
  const std::lock_guard lock(mutex);
  for (LateBlock& late : blocks()) {
    if (late.alive.expired()) end_waiting(late);
  }
  std::erase_if(blocks(), [](const LateBlock& late) { return late.alive.expired(); });
  blocks().push_back({.block = block.get(), .alive = block, .value = value, .variable = variable});
  ++waiting;
}

}  // namespace

void note_late_values(const std::shared_ptr<Store>& store) {
  const std::lock_guard lock(mutex);
  std::erase_if(stores(), [](const auto& known) { return known.expired(); });
  stores().push_back(store);
}

bool makes_values_late(const Store& store) {
  const std::lock_guard lock(mutex);
  return std::ranges::any_of(stores(),
                             [&](const auto& known) { return known.lock().get() == &store; });
}

LateValueScope::LateValueScope(LateValue value)
    : value_(std::move(value)), former_(std::exchange(scope, this)) {}
LateValueScope::~LateValueScope() { scope = former_; }

bool LateValueScope::is_open() { return scope != nullptr; }

bool LateValueScope::take(const VariableBody& variable) {
  const StoreRange& range = variable.range;
  const bool is_alone = range.stride == 0 && range.count == range.block->capacity();
  if (scope == nullptr || !is_alone) return false;
  add(range.block, scope->value_, without_block(variable));
  return true;
}

void note_untouched_slot(const std::shared_ptr<StoreBlock>& slot) {
  VariableBody whole;
  whole.dtype = slot->dtype();
  whole.shape = Shape{slot->capacity()};
  whole.range.count = slot->capacity();
  add(slot, {}, whole);
}

bool is_of_late_values(const StoreBlock& block) {
  const std::lock_guard lock(mutex);
  return find(block) != nullptr;
}

int64_t late_value_of(const StoreBlock& block) {
  if (waiting.load(std::memory_order_acquire) == 0) return 0;
  const std::lock_guard lock(mutex);
  const LateBlock* late = find(block);
  return late != nullptr && late->is_waiting ? late->value.number : 0;
}

void make_late_value(const StoreBlock& block) {
  if (waiting.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(mutex);
  LateBlock* late = find(block);
  if (late == nullptr || !late->is_waiting) return;
  const std::shared_ptr<StoreBlock> alive = late->alive.lock();
  alive->take_memory();
  end_waiting(*late);
  VariableBody variable = late->variable;
  variable.range.block = alive;
  if (const std::function<Tensor()> make = std::exchange(late->value.make, {})) {
    write_first_value(variable, make());
  }
}

void drop_late_value(const StoreBlock& block) {
  const std::lock_guard lock(mutex);
  LateBlock* late = find(block);
  if (late == nullptr) return;
  late->value.make = {};
  end_waiting(*late);
}

Tensor value_without_memory(const StoreBlock& block) {
  if (block.has_memory()) return {};
  const std::lock_guard lock(mutex);
  const LateBlock* late = find(block);
  const bool is_to_be_made = late != nullptr && late->is_waiting && late->value.make;
  return is_to_be_made ? late->value.make() : Tensor();
}

void keep_on_host(const StoreBlock& block, const Tensor& value) {
  const std::lock_guard lock(mutex);
  LateBlock* late = find(block);
  if (late == nullptr) return;
  late->value = {.make = [value] { return value; }, .number = 0};
  if (!std::exchange(late->is_waiting, true)) ++waiting;
}

void keep_on_host(const VariableBody& variable, const Tensor& value) {
  const std::lock_guard lock(mutex);
  keep_on_host(*variable.range.block, value);
  if (LateBlock* late = find(*variable.range.block)) late->variable = without_block(variable);
}

bool is_waiting_for_value(const StoreBlock& block) {
  if (waiting.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(mutex);
  const LateBlock* late = find(block);
  return late != nullptr && late->is_waiting;
}

}  // namespace tandem
