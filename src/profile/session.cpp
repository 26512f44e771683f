#include "profile/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "tandem/error.h"

namespace tandem::profile {
namespace {

std::mutex current_mutex;
std::shared_ptr<Session> current;

const char* category(Kind kind) {
  switch (kind) {
    case Kind::step:
    case Kind::part:
      return "step";
    case Kind::compute:
      return "compute";
    case Kind::reduce:
      return "reduce";
    case Kind::copy:
      return "copy";
    case Kind::wait:
      return "wait";
  }
  return "";
}

double seconds(const Event& event) {
  return static_cast<double>(event.end_ns - event.begin_ns) * 1e-9;
}

/// What a row did by itself in each event: without the events inside it, as barriers are inside ops
/// of several phases. Those of a row come in the order of their ends.
class OwnTime {
 public:
  double of(const Event& event) {
    double own = seconds(event);
    for (; !before_.empty() && before_.back().begin_ns >= event.begin_ns; before_.pop_back()) {
      own -= seconds(before_.back());
    }
    before_.push_back(event);
    return own;
  }

 private:
  std::vector<Event> before_;  // The events that no later one so far was around.
};

template <class Times>
void add(Times& times, Kind kind, double own) {
  if (kind == Kind::compute) times.compute += own;
  if (kind == Kind::reduce) times.reduce += own;
  if (kind == Kind::copy) times.copy += own;
  if (kind == Kind::wait) times.wait += own;
}

void add(std::vector<Summary::Replica>& replicas, const Event& event, double own) {
  if (event.replica < 0) return;
  const auto index = static_cast<size_t>(event.replica);
  if (index >= replicas.size()) replicas.resize(index + 1);
  add(replicas[index], event.kind, own);
}

}  // namespace

std::shared_ptr<Session> current_session() {
  std::lock_guard lock(current_mutex);
  return current;
}

std::shared_ptr<Row> Session::add_row(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto row = std::make_shared<Row>();
  row->name = name.empty() ? fmt::format("thread {}", rows_.size()) : name;
  row->events.reserve(1024);
  rows_.push_back(row);
  return row;
}

Summary Session::summary() const {
  Summary summary;
  summary.wall = static_cast<double>(now_ns() - begin_ns_) * 1e-9;
  std::map<std::string, Summary::Op> ops;
  std::lock_guard lock(mutex_);
  for (const auto& row : rows_) {
    std::lock_guard row_lock(row->mutex);
    summary.rows += row->events.empty() ? 0 : 1;
    OwnTime own_time;
    for (const Event& event : row->events) {
      summary.steps += event.kind == Kind::step ? 1 : 0;
      if (event.kind == Kind::step || event.kind == Kind::part) continue;
      const double own = own_time.of(event);
      add(summary, event.kind, own);
      add(summary.replicas, event, own);
      if (event.kind == Kind::wait) continue;
      Summary::Op& op = ops[event.name];
      op.name = event.name;
      ++op.calls;
      op.seconds += own;
      op.flops += event.flops;
      op.bytes += event.bytes;
    }
  }
  for (auto& [name, op] : ops) summary.ops.push_back(std::move(op));
  std::ranges::sort(summary.ops, std::greater(), &Summary::Op::seconds);
  return summary;
}

std::string Session::chrome_trace() const {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  auto out = std::back_inserter(text);
  fmt::format_to(out, R"({{"name":"process_name","ph":"M","pid":1,"args":{{"name":"tandem"}}}})");
  std::lock_guard lock(mutex_);
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::lock_guard row_lock(rows_[r]->mutex);
    fmt::format_to(out,
                   ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},\"args\":{{"
                   "\"name\":\"{}\"}}}}",
                   r, rows_[r]->name);
    for (const Event& event : rows_[r]->events) {
      fmt::format_to(out,
                     ",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":"
                     "{:.3f},\"dur\":{:.3f}",
                     event.name, category(event.kind), r,
                     static_cast<double>(event.begin_ns - begin_ns_) * 1e-3,
                     static_cast<double>(event.end_ns - event.begin_ns) * 1e-3);
      if (event.kind == Kind::compute || event.kind == Kind::reduce || event.kind == Kind::copy) {
        fmt::format_to(out, ",\"args\":{{\"flops\":{:.0f},\"bytes\":{:.0f}}}", event.flops,
                       event.bytes);
      }
      text += "}";
    }
  }
  text += "\n]}\n";
  return text;
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
  recording = true;
}

Summary stop(const std::string& path) {
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(current_mutex);
    if (!current) throw FailedPrecondition("profile: none is being taken; start one first");
    recording = false;
    session = std::move(current);
    current = nullptr;
  }
  Summary summary = session->summary();
  if (!path.empty()) {
    std::ofstream file(path);
    file << session->chrome_trace();
    if (!file.flush()) throw Unavailable(fmt::format("profile: cannot write '{}'", path));
  }
  return summary;
}

}  // namespace tandem::profile
