/// Where variables live: blocks of memory in which those of a model lie one after another, so that
/// what is done to many of them is done to a range. A block has one component in each memory space
/// of its store's devices; devices of one space share theirs, so mirrored variables on logical CPUs
/// are the same memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tandem/variable.h"
#include "tensor/body.h"

namespace tandem {

class StoreBlock : public std::enable_shared_from_this<StoreBlock> {
 public:
  StoreBlock(DType dtype, int64_t capacity, const std::vector<devices::DevicePtr>& devices,
             uint64_t owner);

  DType dtype() const { return dtype_; }
  int64_t capacity() const { return capacity_; }
  /// The devices of the store that it is part of.
  const std::vector<devices::DevicePtr>& devices() const { return devices_; }
  uint64_t owner() const { return owner_; }

  /// The start of the component that `device` addresses. Throws NotFound when there is none.
  void* data(const devices::Device& device) const;
  bool is_in(const devices::MemorySpace& space) const;
  const std::vector<std::shared_ptr<Buffer>>& components() const { return components_; }

  /// The value at `offset` for `device`, copied only when something is written here. Null where the
  /// block is not in the host's memory alone.
  std::shared_ptr<TensorBody> lend(const devices::DevicePtr& device, int64_t offset,
                                   const Shape& shape);
  /// Is called before anything of the block is written: values that were lent, and are still
  /// held, are copied.
  void settle_loans();

  /// Is called before the host writes anything of the block: the devices have then done what they
  /// were asked. Throws what went wrong in it, and DeadlineExceeded.
  void wait_for_devices() const;
  void forget_loan(const Buffer& loan);

  /// A block of the same size for an optimizer's slot: what a variable's slot is named, lies at the
  /// variable's own offset. Made, zeroed, when it is asked for, and lives as long as somebody holds
  /// it.
  std::shared_ptr<StoreBlock> slot(const std::string& name);

  /// Takes `count` elements from the end for a variable; -1 when they do not fit.
  int64_t take(int64_t count, const std::string& name);

  /// "'dense/kernel'", the variable that begins at `offset`; of a slot "momentum of
  /// 'dense/kernel'".
  std::string name_at(int64_t offset) const;

 private:
  const DType dtype_;
  const int64_t capacity_;
  const std::vector<devices::DevicePtr> devices_;
  const uint64_t owner_;
  std::vector<std::shared_ptr<Buffer>> components_;
  int64_t used_ = 0;
  std::mutex loans_mutex_;
  std::vector<std::pair<const Buffer*, std::weak_ptr<Buffer>>> loans_;
  std::atomic<size_t> loan_count_{0};
  std::weak_ptr<const StoreBlock> variables_;  // For a slot, the block whose slot it is,
  std::string slot_;                           // and what it is named.
  mutable std::mutex mutex_;
  std::map<int64_t, std::string> names_;  // The variables' names, by offset.
  std::map<std::string, std::weak_ptr<StoreBlock>> slots_;
};

/// A part of a block: one variable, or several that lie side by side.
struct StoreRange {
  std::shared_ptr<StoreBlock> block;
  int64_t offset = 0;
  int64_t count = 0;
  int64_t stride = 0;  ///< Elements from one replica's value to the next one's; 0: all have one.

  bool is_same_for_all() const { return stride == 0; }
  std::string name() const { return block->name_at(offset); }
  void* data(const devices::Device& device, int replica = 0) const {
    return static_cast<char*>(block->data(device)) +
           static_cast<size_t>(offset + replica * stride) * size_of(block->dtype());
  }
  StoreRange slot(const std::string& name) const {
    return {block->slot(name), offset, count, stride};
  }
  bool operator==(const StoreRange&) const = default;
};

class Store {
 public:
  /// `owner` is the strategy whose variables these are, 0: none's; `by_replica` its replicas'
  /// devices.
  explicit Store(std::vector<devices::DevicePtr> devices, uint64_t owner = 0,
                 std::vector<devices::DevicePtr> by_replica = {})
      : devices_(std::move(devices)), by_replica_(std::move(by_replica)), owner_(owner) {}

  const std::vector<devices::DevicePtr>& by_replica() const { return by_replica_; }

  const std::vector<devices::DevicePtr>& devices() const { return devices_; }
  StoreRange allocate(const std::string& name, DType dtype, int64_t count);
  /// The same with a value for each replica.
  StoreRange allocate_for_each(const std::string& name, DType dtype, int64_t count);

 private:
  const std::vector<devices::DevicePtr> devices_;
  const std::vector<devices::DevicePtr> by_replica_;
  const uint64_t owner_;
  std::mutex mutex_;
  /// Blocks with room at their end. Their variables keep them: when the last one of a block is gone
  /// its memory is free again.
  std::vector<std::weak_ptr<StoreBlock>> open_blocks_;
};

struct VariableBody {
  std::string name;
  DType dtype{};
  Shape shape;
  bool trainable = true;
  VariableAggregation aggregation = VariableAggregation::none;
  StoreRange range;
  std::shared_ptr<Store> store;
};

/// Copies a value to every component. Throws what the devices have found wrong before, and then
/// writes nothing.
void write_range(const StoreRange& range, const Tensor& value);

/// The same without a wait, for memory that nobody has read yet, and for a value that comes from
/// one of the components. It is not held back by what the devices have found wrong.
void issue_write(const StoreRange& range, const Tensor& value);

/// Copies the first component.
Tensor read_range(const StoreRange& range, const Shape& shape);

/// As write_range and issue_write for a variable; where each replica has its own value, so that
/// their aggregate is `value`.
void write_variable(const VariableBody& variable, const Tensor& value);
void write_first_value(const VariableBody& variable, const Tensor& value);

/// What each replica holds of a variable that is synchronized on_read.
Tensors read_own_values(const VariableBody& variable);

/// While it lives, variables of this thread are created in `store`.
class StoreScope {
 public:
  explicit StoreScope(std::shared_ptr<Store> store);
  ~StoreScope();
  StoreScope(const StoreScope&) = delete;
  StoreScope& operator=(const StoreScope&) = delete;

 private:
  std::shared_ptr<Store> former_;
};

/// While it lives, creating a variable on this thread is FailedPrecondition with this reason.
class CreationBan {
 public:
  explicit CreationBan(std::string reason);
  ~CreationBan();
  CreationBan(const CreationBan&) = delete;
  CreationBan& operator=(const CreationBan&) = delete;

 private:
  const std::string reason_;
  const std::string* former_;
};

/// Throws FailedPrecondition under a ban.
void check_creation(const std::string& variable);

/// The store of the innermost scope; outside of any, the one of variable_device().
std::shared_ptr<Store> creation_store(const std::string& name, DType dtype, const Shape& shape);

/// Where a variable is created: the device scope's device, else the first that can hold it. Throws
/// NotFound where the scope's cannot. Defined by the runtime.
devices::DevicePtr variable_device(const std::string& name, DType dtype, const Shape& shape);

/// A variable's slot as a variable of its own.
Variable slot_variable(const Variable& variable, const std::string& name);

}  // namespace tandem
