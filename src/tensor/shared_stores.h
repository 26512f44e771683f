/// What is known of some stores beside their memory: whose variables replicas in several processes
/// have, so that a variable may have a value for each replica though this process has one replica
/// alone; which have homes on several devices; and whose large variables take no memory of a
/// device, since other processes compute with them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "device/mapped_memory.h"
#include "tensor/store.h"

namespace tandem {

/// `store` is such a store from now on, for as long as it lives.
void note_shared(const std::shared_ptr<Store>& store);

bool is_shared(const std::shared_ptr<Store>& store);

/// Says in which home a variable of this name is created; null: in none.
using HomeRule = std::function<std::shared_ptr<Store>(const std::string& variable)>;

/// Under the scope of a device, variables of `store` are created in the store of `homes` that is on
/// that device, and outside of any where `rule` says; for as long as `store` lives.
void note_homes(const std::shared_ptr<Store>& store, std::vector<std::shared_ptr<Store>> homes,
                HomeRule rule);

/// The store in which a variable of `store` is created: itself, or one of its homes. Throws
/// InvalidArgument where it has homes and this thread's device scope asks for the memory of none.
std::shared_ptr<Store> home_of(const std::shared_ptr<Store>& store, const std::string& variable);

/// This process keeps of the variable that is `range`, an optimizer's slot, the elements that it
/// updates, from `begin` to `end`; other processes keep the rest.
void note_in_parts(const StoreRange& range, int64_t begin, int64_t end);
bool is_in_parts(const StoreRange& range);

/// Gives the memory of what other processes keep of one such slot back, as below.
void release_parts_of_others(const StoreRange& range);

/// Process `keeper` has the value of the variable that is `range`, and perhaps others; where this
/// one is none of them it is not `here`. Replaces what was noted of it before.
void note_kept_by(const StoreRange& range, int keeper, bool here);
/// Nothing where all processes have the value.
std::optional<int> keeper_of(const StoreRange& range);
/// True when other processes alone have the value: what is read here is zeros.
bool is_kept_elsewhere(const StoreRange& range);
/// The same, whatever this process has gathered.
bool is_kept_by_others(const StoreRange& range);
/// While it is set, this process has what others keep: nothing is elsewhere.
void set_gathered_here(bool gathered);

/// Gives the memory of what other processes keep back to the system, so that a slot takes memory
/// once over all processes. Its values are zero from then on, until somebody writes them. It is
/// called whenever such slots may have become whole.
void release_parts_of_others();

/// While it lives, values that this thread makes, and that have `least` bytes or more, lie in
/// devices::MappedMemory; 0: none do. Devices that are no CPUs have none of it: what would be
/// sparse there takes memory when somebody asks for it, all at once.
class MappedScope {
 public:
  enum class Kind { in_file, sparse };
  MappedScope(Kind kind, size_t least);
  ~MappedScope();
  MappedScope(const MappedScope&) = delete;
  MappedScope& operator=(const MappedScope&) = delete;

  /// The memory of a new value; null where it is to be the device's.
  static std::shared_ptr<devices::MappedMemory> memory_for(const devices::Device& device,
                                                           size_t bytes);
  /// True where a new value is to have no memory before somebody asks for it.
  static bool is_on_demand(const devices::Device& device, size_t bytes);

 private:
  const Kind former_kind_;
  const size_t former_least_;
};

/// Variables of `store` that have `least` bytes or more lie in files from now on, for as long as it
/// lives, and so do their slots.
void note_in_files(const std::shared_ptr<Store>& store, size_t least);
/// 0: none do.
size_t least_bytes_in_files(const Store& store);
/// The same for the store in which this thread creates variables now.
size_t least_bytes_in_files();

/// What lies in a file of this range lies in memory from now on, the rest of its variable in the
/// file. Nobody else may use it meanwhile. Throws ResourceExhausted.
void hold_in_memory(const StoreRange& range);

/// Gives the memory of a range back to the system. Where it is sparse its values are zero then.
void release_memory(const StoreRange& range);

}  // namespace tandem
