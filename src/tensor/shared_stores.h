/// Stores whose variables replicas in several processes have. A variable of theirs may have a value
/// for each replica though this process has one replica alone.
#pragma once

#include <memory>

#include "tensor/store.h"

namespace tandem {

/// `store` is such a store from now on, for as long as it lives.
void note_shared(const std::shared_ptr<Store>& store);

bool is_shared(const std::shared_ptr<Store>& store);

/// Of the variable that is `range`, an optimizer's slot, each process keeps the part that it
/// updates; the rest is as it was.
void note_in_parts(const StoreRange& range);
bool is_in_parts(const StoreRange& range);

}  // namespace tandem
