/// A cursor whose items are made before they are asked for, by threads in the background, and
/// handed out in order. Who asks for an item that is not there works too, so that nobody waits
/// while there is something to do: the threads use what is idle, and when nothing is, the caller is
/// no slower than without them.
#pragma once

#include "data/source.h"

namespace tandem::data {

struct AheadOptions {
  const char* name = "";  ///< The transformation's, for errors.
  int threads = 1;        ///< The threads in the background.
  int64_t capacity = 1;   ///< Items being made, or made and not taken.
  /// If not, all is left to the threads, and the caller cannot be stuck.
  bool caller_works = true;
};

/// The items of `source`, with `work(item, number)`, unless it is empty, done on each, on several
/// at once. The threads start with the first item that is asked for. They rest from when `capacity`
/// (2^16 at most) is reached until half of it is left. The destructor waits for the work at hand; a
/// thread that does not end within the deadline is left to itself, with all that it uses.
CursorPtr run_ahead(SourcePtr source, uint64_t epoch,
                    std::function<void(Item& item, int64_t number)> work,
                    const AheadOptions& options);

}  // namespace tandem::data
