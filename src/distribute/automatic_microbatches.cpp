#include "distribute/automatic_microbatches.h"

#include <fmt/format.h>

#include <algorithm>

#include "distribute/memory_room.h"
#include "tandem/error.h"
#include "tandem/log.h"

namespace tandem::distribute {
namespace {

using graph::ConcreteFunctionPtr;
using Step = AutomaticMicrobatches::Step;

int64_t rows_of_each(int64_t rows, int64_t microbatches) {
  return (rows + microbatches - 1) / microbatches;
}

bool has_room_here(const Step& step, const ConcreteFunctionPtr& concrete, int64_t own_rows) {
  return distribute::has_room(step.function.memory_plan(*concrete, own_rows), step.batch_bytes);
}

bool has_room(const Step& step, const ConcreteFunctionPtr& concrete, int64_t own_rows) {
  return step.least_of_all(has_room_here(step, concrete, own_rows) ? 1 : 0) == 1;
}

[[noreturn]] void throw_full(const Step& step, const ConcreteFunctionPtr& concrete) {
  std::string needed;
  for (const MemoryPlan::Device& device : step.function.memory_plan(*concrete, 1).devices) {
    needed += fmt::format("; it takes {} bytes on {}", device.bytes(), device.name);
  }
  throw ResourceExhausted(
      fmt::format("{}: micro-batches are automatic, and those of a single row take more than 90 % "
                  "of the memory limit{}",
                  step.strategy, needed));
}

/// The most rows of a micro-batch that have room; what a step takes for each row is the same for
/// any number of micro-batches, as long as no more of them are under way at once.
int64_t fitting_rows(const Step& step, const ConcreteFunctionPtr& concrete, int64_t most) {
  int64_t fitting = 0;
  for (int64_t too_many = most + 1; too_many - fitting > 1;) {
    const int64_t middle = fitting + (too_many - fitting) / 2;
    (has_room_here(step, concrete, middle) ? fitting : too_many) = middle;
  }
  return step.least_of_all(fitting);
}

}  // namespace

void AutomaticMicrobatches::settle(const Step& step, int now) {
  ConcreteFunctionPtr concrete = step.compile();
  if (is_settled(concrete, rows_of_each(step.rows, now))) return;
  int count = now;
  while (!has_room(step, concrete, rows_of_each(step.rows, count))) {
    if (count >= step.rows) throw_full(step, concrete);
    step.function.forget(*concrete);
    concrete.reset();
    // More of them may be under way at once than were in the search's programs.
    const int least = count == now ? std::max(2, now) : 2 * count;
    count = step.choose(fitting_count(step, least));
    concrete = step.compile();
  }
  note(concrete, rows_of_each(step.rows, count));
  if (count == now) return;
  logging::write(logging::Level::info,
                 fmt::format("{}: micro-batches are automatic: {} for {} rows", step.strategy,
                             count, step.rows));
}

/// What is compiled to find the number goes, with its sums.
int AutomaticMicrobatches::fitting_count(const Step& step, int least) const {
  for (int64_t wanted = least;; wanted *= 2) {
    const int64_t count = step.choose(static_cast<int>(std::min(wanted, step.rows)));
    const ConcreteFunctionPtr concrete = step.compile();
    const int64_t own_rows = rows_of_each(step.rows, count);
    const auto fitting = [&]() -> int64_t {
      // A function that reads the number of its rows has a program for that number alone.
      if (concrete->rows) return has_room(step, concrete, own_rows) ? own_rows : 0;
      return fitting_rows(step, concrete, own_rows);
    }();
    step.function.forget(*concrete);
    if (fitting > 0) return static_cast<int>(rows_of_each(step.rows, fitting));
    if (!concrete->rows || count >= step.rows) throw_full(step, concrete);
  }
}

bool AutomaticMicrobatches::is_settled(const ConcreteFunctionPtr& concrete, int64_t rows) const {
  return std::ranges::any_of(settled_, [&](const Settled& each) {
    return each.rows >= rows && each.concrete.lock() == concrete;
  });
}

void AutomaticMicrobatches::note(const ConcreteFunctionPtr& concrete, int64_t rows) {
  std::erase_if(settled_, [&](const Settled& each) {
    return each.concrete.expired() || each.concrete.lock() == concrete;
  });
  settled_.push_back({concrete, rows});
}

}  // namespace tandem::distribute
