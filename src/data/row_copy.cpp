#include "data/row_copy.h"

#include <algorithm>
#include <cstring>

#include "op/kernel.h"
#include "runtime/shared_team.h"

namespace tandem::data {
namespace {

constexpr size_t kLine = 64;

/// Rows lie far apart, so the processor cannot foresee them: while a row is copied, line by line,
/// the lines of one to come are asked for.
void copy_row(const char* from, const char* to_come, char* to, size_t bytes) {
  size_t at = 0;
  for (; at + kLine <= bytes; at += kLine) {
    __builtin_prefetch(to_come + at);
    std::memcpy(to + at, from + at, kLine);
  }
  if (at == bytes) return;
  __builtin_prefetch(to_come + at);
  std::memcpy(to + at, from + at, bytes - at);
}

void copy_rows(const char* from, std::span<const int64_t> places, char* to, size_t bytes) {
  // What is asked for stays in the innermost cache until its turn. Within long rows the processor
  // finds its way.
  constexpr size_t kAheadBytes = 4 << 10;
  constexpr size_t kLongRow = 16 << 10;
  constexpr size_t kMostAhead = 16;
  const auto row = [&](size_t i) { return from + bytes * static_cast<size_t>(places[i]); };
  const size_t ahead = std::clamp<size_t>(kAheadBytes / std::max<size_t>(bytes, 1), 1, kMostAhead);
  for (size_t i = 0; i < places.size(); ++i, to += bytes) {
    if (bytes < kLongRow) {
      copy_row(row(i), row(std::min(i + ahead, places.size() - 1)), to, bytes);
    } else {
      std::memcpy(to, row(i), bytes);
    }
  }
}

}  // namespace

void RowCopy::add(BodyPtr from, std::shared_ptr<TensorBody> to) {
  bytes_ += to->bytes();
  const size_t row_bytes = to->bytes() / places_.size();
  columns_.push_back({std::move(from), std::move(to), row_bytes});
}

void RowCopy::run(const std::shared_ptr<RowCopy>& job) {
  // Less than this is copied before other threads have begun.
  constexpr size_t kWorthSharing = 64 << 10;
  if (job->bytes_ >= kWorthSharing) {
    const auto team = runtime::last_team();
    if (team != nullptr && team->run_if_awake(job)) return;
  }
  job->copy(0, 1);
}

void RowCopy::play(core::TeamThread& thread) { copy(thread.index(), thread.playing_threads()); }

void RowCopy::copy(int part, int parts) const {
  const auto [begin, end] = op::part_of(static_cast<int64_t>(places_.size()), part, parts);
  const auto first = static_cast<size_t>(begin);
  const auto places = std::span(places_).subspan(first, static_cast<size_t>(end - begin));
  for (const Column& column : columns_) {
    copy_rows(static_cast<const char*>(column.from->data()), places,
              static_cast<char*>(column.to->data()) + first * column.row_bytes, column.row_bytes);
  }
}

}  // namespace tandem::data
