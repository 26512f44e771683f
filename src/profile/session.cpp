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
      return "step";
    case Kind::compute:
      return "compute";
    case Kind::reduce:
      return "reduce";
    case Kind::wait:
      return "wait";
  }
  return "";
}

double seconds(const Event& event) {
  return static_cast<double>(event.end_ns - event.begin_ns) * 1e-9;
}

void add(std::vector<Summary::Replica>& replicas, const Event& event) {
  if (event.replica < 0) return;
  const auto index = static_cast<size_t>(event.replica);
  if (index >= replicas.size()) replicas.resize(index + 1);
  Summary::Replica& replica = replicas[index];
  if (event.kind == Kind::compute) replica.compute += seconds(event);
  if (event.kind == Kind::reduce) replica.reduce += seconds(event);
  if (event.kind == Kind::wait) replica.wait += seconds(event);
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
    for (const Event& event : row->events) {
      if (event.kind == Kind::step) {
        ++summary.steps;
        continue;
      }
      add(summary.replicas, event);
      if (event.kind == Kind::wait) {
        summary.wait += seconds(event);
        continue;
      }
      (event.kind == Kind::reduce ? summary.reduce : summary.compute) += seconds(event);
      Summary::Op& op = ops[event.name];
      op.name = event.name;
      ++op.calls;
      op.seconds += seconds(event);
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
      if (event.kind == Kind::compute || event.kind == Kind::reduce) {
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
      "{} steps in {:.3f} s on {} rows: compute {:.1f}%, reduce {:.1f}%, wait {:.1f}%, other "
      "{:.1f}%\n",
      steps, wall, rows, percent(compute), percent(reduce), percent(wait),
      percent(time - compute - reduce - wait));
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
