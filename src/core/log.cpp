#include "tandem/log.h"

#include <atomic>
#include <iostream>
#include <mutex>
#include <utility>

namespace tandem::logging {
namespace {

struct LogState {
  std::recursive_mutex mutex;  // A sink may log itself.
  Sink sink;
  std::atomic<Level> level{Level::info};
};

LogState& state() {
  static LogState* instance = new LogState;  // Outlives every thread that may still log at exit.
  return *instance;
}

constexpr std::string_view label(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warning:
      return "warning";
    case Level::error:
      return "error";
  }
  return "";
}

}  // namespace

Sink set_sink(Sink sink) {
  std::lock_guard lock(state().mutex);
  return std::exchange(state().sink, std::move(sink));
}

void set_level(Level level) { state().level = level; }

void write(Level level, std::string_view message) {
  if (level < state().level.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(state().mutex);
  if (const Sink sink = state().sink) {
    sink(level, message);
  } else {
    std::cerr << "tandem " << label(level) << ": " << message << '\n';
  }
}

}  // namespace tandem::logging
