#include "checkpoint/process_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <vector>

#include "checkpoint/files.h"
#include "device/transfer.h"
#include "tandem/error.h"
#include "tensor/late_values.h"
#include "tensor/part_runs.h"
#include "tensor/shared_stores.h"

namespace tandem::checkpoint {
namespace {

constexpr size_t kChunk = 1 << 20;

std::mutex mutex;
std::atomic<bool> is_follower{false};
std::weak_ptr<op::Group>& known() {
  static std::weak_ptr<op::Group> group;
  return group;
}

/// The files of a checkpoint by the ends of their names.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& prefix) {
  std::vector<std::filesystem::path> files;
  const std::string name = prefix.filename().string();
  const auto folder = prefix.has_parent_path() ? prefix.parent_path() : ".";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string own = entry.path().filename().string();
    if (own == name + ".index" || own.starts_with(name + ".data-")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void broadcast(op::Group& group, char* data, size_t bytes) {
  const op::Piece piece{data, static_cast<int64_t>(bytes), DType::uint8};
  group.run({.kind = op::ExchangeKind::broadcast,
             .pieces = {&piece, 1},
             .name = "the files of a checkpoint"});
}

std::filesystem::path new_folder() {
  static std::atomic<int> last{0};
  auto folder = std::filesystem::temp_directory_path() /
                fmt::format("tandem-restore-{}-{}", getpid(), ++last);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

void set_processes(const std::shared_ptr<op::Group>& group) {
  const std::lock_guard lock(mutex);
  known() = group;
}

std::shared_ptr<op::Group> processes() {
  const std::lock_guard lock(mutex);
  return known().lock();
}

bool is_writer() {
  if (is_follower) return false;
  const auto group = processes();
  return !group || group->rank() == 0;
}

void set_follower(bool follows) { is_follower = follows; }

bool are_in_parts(const std::vector<Variable>& variables) {
  return std::ranges::any_of(variables, [](const Variable& variable) {
    const StoreRange& range = variable.body()->range;
    return is_in_parts(range) || keeper_of(range) || !has_all_parts(*variable.body());
  });
}

namespace {

/// Which part of a variable each replica of all processes keeps; negative where it keeps none.
std::vector<int64_t> parts_of_replicas(op::Group& group, const StoreRange& range) {
  const size_t own = range.block->devices().size();
  std::vector<int64_t> parts(own * static_cast<size_t>(group.size()));
  const bool is_elsewhere = is_kept_by_others(range);
  for (size_t r = 0; r < own; ++r) {
    parts[own * static_cast<size_t>(group.rank()) + r] =
        is_elsewhere ? -1 : range.block->part_of_replica(static_cast<int>(r));
  }
  const op::Piece piece{parts.data(), static_cast<int64_t>(parts.size()), DType::int64};
  group.run({.pieces = {&piece, 1}, .name = "who keeps which part of a variable"});
  return parts;
}

}  // namespace

std::vector<char> gathered_value(op::Group& group, const Variable& variable) {
  const VariableBody& body = *variable.body();
  const StoreRange& range = body.range;
  range.block->wait_for_devices();
  // Exchanges cut at whole chunks, so each part has as many. Those of a mesh that several processes
  // have come more than once.
  constexpr int64_t kChunk = 64;
  const int64_t room = (range.count + kChunk - 1) / kChunk * kChunk;
  const size_t element = size_of(body.dtype);
  const std::vector<devices::DevicePtr>& replicas = range.block->devices();
  const auto count = static_cast<int64_t>(replicas.size()) * group.size();
  std::vector<char> all(static_cast<size_t>(room * count) * element);
  const auto place = [&](size_t replica) {
    return all.data() + replica * static_cast<size_t>(room) * element;
  };
  const bool is_elsewhere = !range.block->has_memory() && !is_waiting_for_value(*range.block);
  for (size_t r = 0; r < replicas.size() && !is_elsewhere; ++r) {
    devices::transfer(*devices::host_device(),
                      place(replicas.size() * static_cast<size_t>(group.rank()) + r), *replicas[r],
                      range.data(*replicas[r], static_cast<int>(r)),
                      static_cast<size_t>(range.count) * element, range.block);
  }
  const op::Piece piece{all.data(), room * count, body.dtype};
  group.run({.kind = op::ExchangeKind::gather_parts,
             .pieces = {&piece, 1},
             .name = "variables of a checkpoint"});
  const PartRuns runs(body);
  std::vector<char> whole = runs.new_whole();
  for (size_t replica = 0; const int64_t part : parts_of_replicas(group, range)) {
    const char* const own = place(replica++);
    if (part < 0) continue;
    runs.for_each(static_cast<int>(part), [&](size_t to, size_t from, size_t bytes) {
      std::copy_n(own + from, bytes, whole.data() + to);
    });
  }
  return whole;
}

bool share_folder(op::Group& group, const std::filesystem::path& folder) {
  const std::filesystem::path mark = folder / "checkpoint.shared.partial";
  const bool is_chief = group.rank() == 0;
  act_together(group, "save: the folder", [&] {
    if (!is_chief) return;
    make_folder(folder);
    write_file(mark, "");
  });
  std::error_code ignored;
  const bool sees = std::filesystem::exists(mark, ignored);
  const std::vector<std::string> all = group.gather_texts("save: the folder", sees ? "sees" : "");
  if (is_chief) remove_file(mark);
  return std::ranges::none_of(all, &std::string::empty);
}

/// Slots go to all one after another, and those who do not write one give it back at once: nobody
/// holds more than what it writes, and one more.
GatheredParts::GatheredParts(const std::vector<Variable>& variables,
                             const std::vector<int>& writers) {
  const auto group = processes();
  if (!group) return;
  for (size_t i = 0; i < variables.size(); ++i) {
    const StoreRange& range = variables[i].body()->range;
    const std::optional<int> keeper = keeper_of(range);
    if (!keeper && !is_in_parts(range)) continue;
    if (!has_all_parts(*variables[i].body())) continue;  // See gathered_value().
    has_parts_ = true;
    range.block->wait_for_devices();
    const devices::DevicePtr& device = range.block->components()[0]->device();
    Tensor hosted;  // What is a device's, on its way.
    if (device->works_on_threads()) {
      range.block->settle_loans();
    } else if (is_kept_elsewhere(range)) {
      hosted = Tensor(new_body(devices::host_device(), range.block->dtype(), Shape{range.count}));
    } else {
      hosted = on_device(read_range(range, Shape{range.count}), devices::host_device());
    }
    const op::Piece piece{hosted.defined() ? hosted.body()->data() : range.data(*device),
                          range.count, range.block->dtype()};
    group->run({.kind = keeper ? op::ExchangeKind::broadcast : op::ExchangeKind::gather_parts,
                .pieces = {&piece, 1},
                .root = keeper.value_or(0),
                .name = keeper ? "variables of a checkpoint" : "slots of a checkpoint"});
    const bool is_writer = writers[i] == group->rank();
    const bool is_here = !keeper || !is_kept_elsewhere(range);
    if (hosted.defined() && (is_writer || is_here)) write_range(range, hosted);
    if (!is_writer) release_parts_of_others(range);
  }
  set_gathered_here(std::ranges::find(writers, group->rank()) != writers.end());
}

GatheredParts::~GatheredParts() {
  set_gathered_here(false);
  try {
    if (has_parts_) release_parts_of_others();
  } catch (const Error&) {  // A device's, which whoever uses it next hears of.
  }
}

void send_files(op::Group& group, const std::filesystem::path& prefix) {
  const auto files = files_of(prefix);
  std::vector<std::unique_ptr<OpenFile>> open;
  std::string list;
  for (const auto& file : files) {
    open.push_back(std::make_unique<OpenFile>(file));
    list +=
        fmt::format("{} {}\n", file.string().substr(prefix.string().size()), open.back()->bytes());
  }
  group.gather_texts("the files of a checkpoint", list);
  std::vector<char> chunk(kChunk);
  for (const auto& file : open) {
    for (uint64_t at = 0; at < file->bytes(); at += kChunk) {
      const size_t bytes = static_cast<size_t>(std::min<uint64_t>(kChunk, file->bytes() - at));
      file->read(chunk.data(), bytes, at);
      broadcast(group, chunk.data(), bytes);
    }
  }
}

ReceivedFiles::ReceivedFiles(op::Group& group) : folder_(new_folder()) {
  std::istringstream list(group.gather_texts("the files of a checkpoint", "")[0]);
  std::string name;
  uint64_t size = 0;
  std::vector<char> chunk(kChunk);
  std::string unwritten;  // All that is sent is taken, also where it cannot be written.
  while (list >> name >> size) {
    std::ofstream file(prefix().string() + name, std::ios::binary);
    for (uint64_t at = 0; at < size; at += kChunk) {
      const size_t bytes = static_cast<size_t>(std::min<uint64_t>(kChunk, size - at));
      broadcast(group, chunk.data(), bytes);
      file.write(chunk.data(), static_cast<std::streamsize>(bytes));
    }
    if (!file.flush()) unwritten = prefix().string() + name;
  }
  if (!unwritten.empty()) {
    throw Unavailable(fmt::format("{} cannot be written, a copy of the chief's", unwritten));
  }
}

ReceivedFiles::~ReceivedFiles() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void act_together(op::Group& group, const char* what, const std::function<void()>& act) {
  std::string error;
  std::exception_ptr own;
  try {
    act();
  } catch (const Error& thrown) {
    own = std::current_exception();
    error = fmt::format("{}: {}", thrown.kind(), thrown.what());
  }
  const std::vector<std::string> errors = group.gather_texts(what, error);
  if (own) std::rethrow_exception(own);
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank].empty()) continue;
    throw Unavailable(fmt::format("{}: {}", group.describe(static_cast<int>(rank)), errors[rank]));
  }
}

}  // namespace tandem::checkpoint
