/// First values that are made when somebody needs them. Where several processes keep some of a
/// model's variables each, a process learns which are its own when a function is compiled; until
/// then it makes no values, and of those that others keep it never does. So a model may be larger
/// than the memory of each process.
///
/// On a CPU a variable without a value lies in memory of which the system takes pages when they are
/// written, and so do its slots, which are zero. That memory counts as none of the device's. On
/// other devices the block of such a variable has no memory before somebody asks for it, and a
/// value that is written before is kept on the host.
#pragma once

#include <functional>
#include <memory>

#include "tensor/store.h"

namespace tandem {

/// Large variables that layers create in `store` get their values late from now on, for as long as
/// it lives.
void note_late_values(const std::shared_ptr<Store>& store);

bool makes_values_late(const Store& store);
/// The same for the store in which this thread creates variables now.
bool makes_values_late();

/// How a value is made. Two of one number, which is not 0, make the same value.
struct LateValue {
  std::function<Tensor()> make;
  int64_t number = 1;
};

/// While it lives, a large variable that this thread creates, alone in its block, has no value
/// until this one is made.
class LateValueScope {
 public:
  explicit LateValueScope(LateValue value);
  ~LateValueScope();
  LateValueScope(const LateValueScope&) = delete;
  LateValueScope& operator=(const LateValueScope&) = delete;

  static bool is_open();
  /// Notes that the scope's value is that of this variable; false where it lies in memory
  /// that it shares with others, so that it has to be written now.
  static bool take(const VariableBody& variable);

 private:
  const LateValue value_;
  LateValueScope* const former_;
};

/// Notes a slot that is zero, in memory of which no page was taken.
void note_untouched_slot(const std::shared_ptr<StoreBlock>& slot);

/// True for the memory of variables whose values are, or were, late, and of their slots.
bool is_of_late_values(const StoreBlock& block);

/// The number of the value that such a block is to have, until somebody asks for its memory; then
/// 0.
int64_t late_value_of(const StoreBlock& block);

/// Is called before anybody reads or writes memory of the block: makes its value, if it is late.
void make_late_value(const StoreBlock& block);

/// The value that a block without memory is to have: on the host, where it was written, else as it
/// would be made now. An empty Tensor for a block that has memory, and where nothing is to be made.
Tensor value_without_memory(const StoreBlock& block);

/// The value of a block without memory, which gets it with its memory; or, as a whole, of a
/// variable in parts.
void keep_on_host(const StoreBlock& block, const Tensor& value);
void keep_on_host(const VariableBody& variable, const Tensor& value);

/// True until somebody asks for the memory of such a block, or drops its value.
bool is_waiting_for_value(const StoreBlock& block);

/// The value is never made.
void drop_late_value(const StoreBlock& block);

}  // namespace tandem
