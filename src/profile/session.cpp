#include "profile/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "profile/device_clock.h"
#include "tandem/error.h"

namespace tandem::profile {
namespace {

std::mutex current_mutex;
std::shared_ptr<Session> current;

std::mutex clocks_mutex;
std::vector<std::weak_ptr<DeviceClock>> clocks;

/// None of the locks here is held while a clock waits.
void flush_clocks() {
  std::vector<std::weak_ptr<DeviceClock>> all;
  {
    const std::lock_guard lock(clocks_mutex);
    all = clocks;
  }
  for (const auto& clock : all) {
    if (const auto alive = clock.lock()) alive->flush();
  }
}

/// How the names of intervals begin in which a device had nothing to do.
constexpr std::string_view kIdle = "idle, ";

bool is_idle(const Interval& interval) {
  return interval.kind == Activity::wait && std::string_view(interval.name).starts_with(kIdle);
}

const char* category(Activity kind) {
  switch (kind) {
    case Activity::step:
    case Activity::step_share:
      return "step";
    case Activity::compute:
      return "compute";
    case Activity::reduce:
      return "reduce";
    case Activity::copy:
      return "copy";
    case Activity::wait:
      return "wait";
  }
  return "";
}

double seconds(const Interval& interval) {
  return static_cast<double>(interval.end_ns - interval.begin_ns) * 1e-9;
}

/// What a row did by itself in each interval: without the intervals inside it, as barriers are
/// inside ops of several phases. Those of a row come in the order of their ends.
class OwnTime {
 public:
  double of(const Interval& interval) {
    double own = seconds(interval);
    for (; !before_.empty() && before_.back().begin_ns >= interval.begin_ns; before_.pop_back()) {
      own -= seconds(before_.back());
    }
    before_.push_back(interval);
    return own;
  }

 private:
  std::vector<Interval> before_;  // The intervals that no later one so far was around.
};

template <class Times>
void add(Times& times, Activity kind, double own) {
  if (kind == Activity::compute) times.compute += own;
  if (kind == Activity::reduce) times.reduce += own;
  if (kind == Activity::copy) times.copy += own;
  if (kind == Activity::wait) times.wait += own;
}

void add(std::vector<Summary::Replica>& replicas, const Interval& interval, double own) {
  if (interval.replica < 0) return;
  const auto index = static_cast<size_t>(interval.replica);
  if (index >= replicas.size()) replicas.resize(index + 1);
  add(replicas[index], interval.kind, own);
}

}  // namespace

std::shared_ptr<Session> current_session() {
  std::lock_guard lock(current_mutex);
  return current;
}

std::shared_ptr<ProfileRow> Session::add_row(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto row = std::make_shared<ProfileRow>();
  row->name = name.empty() ? fmt::format("thread {}", rows_.size()) : name;
  row->intervals.reserve(1024);
  rows_.push_back(row);
  return row;
}

std::shared_ptr<ProfileRow> Session::row_named(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    for (const auto& row : rows_) {
      if (row->name == name) return row;
    }
  }
  return add_row(name);
}

Summary Session::summary() const {
  Summary summary;
  summary.wall = static_cast<double>(now_ns() - begin_ns_) * 1e-9;
  std::map<std::string, Summary::Op> ops;
  std::lock_guard lock(mutex_);
  for (const auto& row : rows_) {
    std::lock_guard row_lock(row->mutex);
    summary.rows += row->intervals.empty() ? 0 : 1;
    OwnTime own_time;
    for (const Interval& interval : row->intervals) {
      summary.steps += interval.kind == Activity::step ? 1 : 0;
      if (interval.kind == Activity::step || interval.kind == Activity::step_share) continue;
      const double own = own_time.of(interval);
      add(summary, interval.kind, own);
      add(summary.replicas, interval, own);
      if (interval.kind == Activity::wait) continue;
      Summary::Op& op = ops[interval.name];
      op.name = interval.name;
      ++op.calls;
      op.seconds += own;
      op.flops += interval.flops;
      op.bytes += interval.bytes;
    }
  }
  for (auto& [name, op] : ops) summary.ops.push_back(std::move(op));
  std::ranges::sort(summary.ops, std::greater(), &Summary::Op::seconds);
  return summary;
}

std::vector<std::shared_ptr<ProfileRow>> Session::rows() const {
  std::lock_guard lock(mutex_);
  return rows_;
}

std::vector<IdleTime> Session::idle() const {
  std::vector<IdleTime> all;
  std::lock_guard lock(mutex_);
  for (const auto& row : rows_) {
    std::lock_guard row_lock(row->mutex);
    for (const Interval& interval : row->intervals) {
      if (!is_idle(interval)) continue;
      const std::string_view why = std::string_view(interval.name).substr(kIdle.size());
      auto known = std::ranges::find_if(
          all, [&](const IdleTime& idle) { return idle.row == row->name && idle.why == why; });
      if (known == all.end()) known = all.insert(known, {row->name, std::string(why)});
      known->seconds += seconds(interval);
    }
  }
  return all;
}

std::string trace_events(const std::vector<std::shared_ptr<ProfileRow>>& rows, int64_t zero_ns,
                         int process, const std::string& name) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":"{}"}}}})",
                 process, name);
  for (size_t r = 0; r < rows.size(); ++r) {
    std::lock_guard row_lock(rows[r]->mutex);
    fmt::format_to(out,
                   ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{"
                   "\"name\":\"{}\"}}}}",
                   process, r, rows[r]->name);
    for (const Interval& interval : rows[r]->intervals) {
      fmt::format_to(
          out,
          ",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":"
          "{:.3f},\"dur\":{:.3f}",
          interval.name, category(interval.kind), process, r,
          static_cast<double>(interval.begin_ns - zero_ns) * 1e-3,
          static_cast<double>(interval.end_ns - interval.begin_ns) * 1e-3);
      if (interval.kind == Activity::compute || interval.kind == Activity::reduce ||
          interval.kind == Activity::copy) {
        fmt::format_to(out, ",\"args\":{{\"flops\":{:.0f},\"bytes\":{:.0f}}}", interval.flops,
                       interval.bytes);
      }
      text += "}";
    }
  }
  return text;
}

void write_trace(const std::string& path, const std::vector<std::string>& events) {
  std::ofstream file(path);
  file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t i = 0; i < events.size(); ++i) file << (i == 0 ? "" : ",\n") << events[i];
  file << "\n]}\n";
  if (!file.flush()) throw Unavailable(fmt::format("profile: cannot write '{}'", path));
}

std::string Summary::str() const {
  const double time = wall * rows;
  const auto percent = [&](double part) { return time > 0 ? 100 * part / time : 0; };
  std::string text = fmt::format(
      "{} steps in {:.3f} s on {} rows: compute {:.1f}%, reduce {:.1f}%, copy {:.1f}%, wait "
      "{:.1f}%, other {:.1f}%\n",
      steps, wall, rows, percent(compute), percent(reduce), percent(copy), percent(wait),
      percent(time - compute - reduce - copy - wait));
  text += fmt::format("{:<28} {:>9} {:>11} {:>7} {:>9} {:>9}\n", "op", "calls", "total ms", "%",
                      "GFLOP/s", "GB/s");
  for (const Op& op : ops) {
    text += fmt::format("{:<28} {:>9} {:>11.3f} {:>7.1f} {:>9.1f} {:>9.1f}\n", op.name, op.calls,
                        op.seconds * 1e3, percent(op.seconds), op.flops / op.seconds * 1e-9,
                        op.bytes / op.seconds * 1e-9);
  }
  return text;
}

void start() {
  static uint64_t last_id = 0;
  std::lock_guard lock(current_mutex);
  if (current) throw FailedPrecondition("profile: one is being taken already; stop it first");
  current = std::make_shared<Session>(++last_id);
  profiling = true;
}

void add_clock(const std::weak_ptr<DeviceClock>& clock) {
  const std::lock_guard lock(clocks_mutex);
  std::erase_if(clocks, [](const auto& other) { return other.expired(); });
  clocks.push_back(clock);
}

Summary stop(const std::string& path) { return finish(path).summary; }

Recorded finish(const std::string& path) {
  if (is_profiling()) flush_clocks();
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(current_mutex);
    if (!current) throw FailedPrecondition("profile: none is being taken; start one first");
    profiling = false;
    session = std::move(current);
    current = nullptr;
  }
  Recorded recorded{session->summary(), session->idle(), session->rows(), session->begin_ns()};
  if (!path.empty()) {
    write_trace(path, {trace_events(recorded.rows, recorded.begin_ns, 1, "tandem")});
  }
  return recorded;
}

}  // namespace tandem::profile
