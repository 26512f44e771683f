/// Stores whose variables replicas in several processes have. A variable of theirs may have a value
/// for each replica though this process has one replica alone.
#pragma once

#include <memory>

#include "tensor/store.h"

namespace tandem {

/// `store` is such a store from now on, for as long as it lives.
void note_shared(const std::shared_ptr<Store>& store);

bool is_shared(const std::shared_ptr<Store>& store);

}  // namespace tandem
