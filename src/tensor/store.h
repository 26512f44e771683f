/// Where variables live: blocks of memory in which those of a model lie one after another, so that
/// what is done to many of them is done to a range. A block has one component in each memory space
/// of its store's devices; devices of one space share theirs, so mirrored variables on logical CPUs
/// are the same memory.
///
/// A variable may be cut over the replicas: each keeps one of equal parts of it, in memory of its
/// own device, and so are the variable's slots. A block of such variables has a component for each
/// part in each memory space where a replica has that part.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tandem/variable.h"
#include "tensor/body.h"

namespace tandem {

/// How a variable is cut into equal parts, one for each replica or for each of a mesh's axis.
struct VariableCut {
  int parts = 1;  ///< Replica r has part r % parts; 1: all have the whole.
  /// The axis that is cut; -1: the elements in their order, into whole chunks of 64, of which the
  /// last may go past the end.
  int axis = -1;
  int first = 0;  ///< The part of this process's first replica; other processes have others.

  bool is_whole() const { return parts == 1; }
  Shape part_of(const Shape& whole) const {
    if (is_whole()) return whole;
    if (axis >= 0) return whole.with(axis, whole.extent(axis) / parts);
    constexpr int64_t kChunk = 64;
    const int64_t chunks = (whole.total_extent() + kChunk - 1) / kChunk;
    return Shape{(chunks + parts - 1) / parts * kChunk};
  }
  bool operator==(const VariableCut&) const = default;
};

/// What is cut over the replicas when a variable is trained.
struct Sharding {
  VariableCut value{};     ///< The variable, its gradient and its slots;
  VariableCut slots{};     ///< or its slots alone, of which each replica updates its part.
  bool gradients = false;  ///< Then replicas keep no more of a sum of gradients than their parts.
};

class StoreBlock : public std::enable_shared_from_this<StoreBlock> {
 public:
  /// Where it is of several parts, `capacity` is that of one, and device i has part
  /// cut.first + i % parts.
  StoreBlock(DType dtype, int64_t capacity, const std::vector<devices::DevicePtr>& devices,
             uint64_t owner, const VariableCut& cut = {});

  DType dtype() const { return dtype_; }
  int64_t capacity() const { return capacity_; }
  size_t bytes() const { return static_cast<size_t>(capacity_) * size_of(dtype_); }

  /// False for a block of late values on devices that are no CPUs, until somebody asks for its
  /// memory: then it takes some, which is zero. See late_values.h.
  bool has_memory() const { return has_memory_.load(std::memory_order_acquire); }
  void take_memory() const;
  /// Nobody uses the memory any more: the devices get it back.
  void give_memory_back();
  /// A block without memory is on this device from now on, alone, and so are its slots.
  void move_to(const devices::DevicePtr& device);
  /// The devices of the store that it is part of.
  const std::vector<devices::DevicePtr>& devices() const { return devices_; }
  uint64_t owner() const { return owner_; }
  int parts() const { return cut_.parts; }
  /// The part of a replica of this process.
  int part_of_replica(int replica) const { return (cut_.first + replica) % cut_.parts; }

  /// The start of the component, of a part, that `device` addresses. Throws NotFound when there is
  /// none.
  void* data(const devices::Device& device, int part = 0) const;
  bool is_in(const devices::MemorySpace& space) const;
  const std::vector<std::shared_ptr<Buffer>>& components() const { return components_; }
  /// Which part a component, by its number, is of.
  int part_of_component(size_t component) const { return component_parts_[component]; }
  /// Null where no device of this process has the part.
  std::shared_ptr<Buffer> component_of_part(int part) const;

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
  /// The same in parts, for a block with one variable: each of these devices, by replica, has one.
  std::shared_ptr<StoreBlock> slot_in_parts(const std::string& name, const VariableCut& cut,
                                            const std::vector<devices::DevicePtr>& by_replica);

  /// The slots' blocks that somebody holds.
  std::vector<std::shared_ptr<StoreBlock>> slots() const;

  /// Takes `count` elements from the end for a variable; -1 when they do not fit.
  int64_t take(int64_t count, const std::string& name);

  /// "'dense/kernel'", the variable that begins at `offset`; of a slot "momentum of
  /// 'dense/kernel'".
  std::string name_at(int64_t offset) const;

 private:
  std::shared_ptr<StoreBlock> add_slot(const std::string& name, std::shared_ptr<StoreBlock> block);
  /// Null where there is none.
  const Buffer* component_in(const devices::MemorySpace& space, int part) const;

  const DType dtype_;
  const int64_t capacity_;
  std::vector<devices::DevicePtr> devices_;
  const uint64_t owner_;
  const VariableCut cut_;
  mutable std::vector<std::shared_ptr<Buffer>> components_;
  mutable std::atomic<bool> has_memory_{true};
  mutable std::mutex memory_mutex_;
  std::vector<int> component_parts_;  // Which part each component holds.
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
  int64_t stride = 0;   ///< Elements from one replica's value to the next one's; 0: all have one.
  int part = kOwnPart;  ///< Which part of a block in parts.

  static constexpr int kOwnPart = -1;  ///< Each replica its own.

  /// False where replicas have values, or parts of one, of their own.
  bool is_same_for_all() const { return stride == 0 && !is_own_part(); }
  bool is_own_part() const { return block->parts() > 1 && part == kOwnPart; }
  std::string name() const { return block->name_at(offset); }
  void* data(const devices::Device& device, int replica = 0) const {
    const int own = part == kOwnPart ? block->part_of_replica(replica) : part;
    return static_cast<char*>(block->data(device, own)) +
           static_cast<size_t>(offset + replica * stride) * size_of(block->dtype());
  }
  StoreRange slot(const std::string& name) const {
    return {block->slot(name), offset, count, stride, part};
  }
  bool operator==(const StoreRange&) const = default;
};

/// True where the two have elements in common, whichever replicas they are seen by.
inline bool overlap(const StoreRange& a, const StoreRange& b) {
  const auto end = [](const StoreRange& range) {
    // An empty variable has an element, too.
    return range.stride > 0 ? range.block->capacity()
                            : range.offset + std::max<int64_t>(range.count, 1);
  };
  const bool are_parts = a.part != StoreRange::kOwnPart && b.part != StoreRange::kOwnPart;
  return a.block == b.block && a.offset < end(b) && b.offset < end(a) &&
         !(are_parts && a.part != b.part);
}

/// The memory of a store on one device.
struct HeldBytes {
  size_t variables = 0;
  size_t slots = 0;
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

  /// Says what is cut of a variable of this name and shape that is trained.
  using ShardingRule = std::function<Sharding(const std::string& name, const Shape& shape)>;
  /// Variables that are created from now on are cut as `rule` says.
  void set_sharding(ShardingRule rule) { sharding_ = std::move(rule); }
  Sharding sharding_of(const std::string& name, const Shape& shape) const {
    return sharding_ ? sharding_(name, shape) : Sharding();
  }

  /// `count` is that of one part, where there are several.
  StoreRange allocate(const std::string& name, DType dtype, int64_t count,
                      const VariableCut& cut = {});
  /// A variable alone in its block, with room behind it for so many equal parts.
  StoreRange allocate_for_parts(const std::string& name, DType dtype, int64_t count, int parts);
  /// The same with a value for each replica.
  StoreRange allocate_for_each(const std::string& name, DType dtype, int64_t count);

  /// By the devices' names.
  std::map<std::string, HeldBytes> held_bytes() const;

 private:
  std::shared_ptr<StoreBlock> new_block(DType dtype, int64_t capacity,
                                        const std::vector<devices::DevicePtr>& devices,
                                        const VariableCut& cut = {});

  const std::vector<devices::DevicePtr> devices_;
  const std::vector<devices::DevicePtr> by_replica_;
  const uint64_t owner_;
  ShardingRule sharding_;
  mutable std::mutex mutex_;
  /// Blocks with room at their end. Their variables keep them: when the last one of a block is gone
  /// its memory is free again.
  std::vector<std::weak_ptr<StoreBlock>> open_blocks_;
  std::vector<std::weak_ptr<StoreBlock>> blocks_;  // All.
};

struct VariableBody {
  std::string name;
  DType dtype{};
  Shape shape;
  bool trainable = true;
  VariableAggregation aggregation = VariableAggregation::none;
  StoreRange range;
  std::shared_ptr<Store> store;
  VariableCut cut{};
  /// Where it is whole: how its slots are cut, and whether sums of its gradient are kept in parts.
  VariableCut slot_cut{};
  bool has_gradient_in_parts = false;
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

/// The whole of a variable that is cut, on the host. Throws FailedPrecondition where other
/// processes have parts of it.
Tensor read_joined(const VariableBody& variable);
bool has_all_parts(const VariableBody& variable);

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

/// A variable whose slots are cut as one that is cut in the same way, in the same memory: each
/// replica writes its part of what all read.
Variable view_in_parts(const Variable& variable);

}  // namespace tandem
