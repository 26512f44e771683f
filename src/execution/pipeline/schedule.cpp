// A stage takes forward passes until enough micro-batches are in flight to keep it busy until the
// first gradient comes back, then a forward and a backward pass in turn, then the backward passes
// that are left. What differs between the kinds is how many are in flight. Interleaved stages with
// a number of micro-batches that is no multiple of the stages may wait for each other that way:
// then all of them take one forward pass more before the first backward pass, until none waits.
#include "execution/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tandem/error.h"

namespace tandem::graph {
namespace {

constexpr int kForwardTime = 1;
constexpr int kBackwardTime = 2;

struct Pass {
  bool backward = false;
  int microbatch = 0;
  int chunk = 0;  // The stage's chunk.
};

/// The numbers of a pipeline, and who comes before whom.
class ModelChunks {
 public:
  explicit ModelChunks(const PipelineShape& shape) : shape_(shape) {}

  int count() const { return shape_.stages * shape_.chunks; }
  int model_chunk(int stage, int chunk) const { return chunk * shape_.stages + stage; }
  int passes_of_stage() const { return shape_.microbatches * shape_.chunks; }

  /// A stage's forward passes in their order: a group of as many micro-batches as there are stages
  /// goes through one chunk after the other, then the next group does.
  std::vector<Pass> forwards() const { return in_groups(false); }
  /// The same for backward passes, from the last chunk to the first.
  std::vector<Pass> backwards() const { return in_groups(true); }

  /// The forward passes that may be in flight at a stage, so that it has something to do until the
  /// first gradient comes back.
  int most_in_flight(int stage) const {
    if (shape_.kind == PipelineKind::gpipe) return passes_of_stage();
    const int behind = shape_.stages - 1 - stage;
    const int most =
        shape_.chunks == 1 ? behind + 1 : 2 * behind + (shape_.chunks - 1) * first_group() + 1;
    return std::min(most, passes_of_stage());
  }

 private:
  /// The first group takes what is left over, so that none is smaller than the stages are many.
  int first_group() const {
    if (shape_.chunks == 1 || shape_.microbatches < shape_.stages) return shape_.microbatches;
    return shape_.stages + shape_.microbatches % shape_.stages;
  }

  std::vector<Pass> in_groups(bool backward) const {
    std::vector<Pass> passes;
    for (int first = 0, end = first_group(); first < shape_.microbatches;
         first = end, end += shape_.stages) {
      for (int c = 0; c < shape_.chunks; ++c) {
        const int chunk = backward ? shape_.chunks - 1 - c : c;
        for (int m = first; m < end; ++m) passes.push_back({backward, m, chunk});
      }
    }
    return passes;
  }

  const PipelineShape& shape_;
};

void check(const PipelineShape& shape) {
  const auto refuse = [](std::string_view what, int value) {
    throw InvalidArgument(fmt::format("pipeline: {} {} given; at least 1 is needed", value, what));
  };
  if (shape.stages < 1) refuse("stages", shape.stages);
  if (shape.microbatches < 1) refuse("micro-batches", shape.microbatches);
  if (shape.chunks < 1) refuse("chunks", shape.chunks);
  if (shape.chunks > 1 && shape.kind != PipelineKind::interleaved) {
    throw InvalidArgument(
        fmt::format("pipeline: {} chunks in a stage need the schedule 'interleaved', not '{}'",
                    shape.chunks, name_of(shape.kind)));
  }
}

/// A stage's passes in their order: forward passes until enough are in flight, then one of each in
/// turn, then the backward passes that are left.
std::vector<Pass> order_of(const ModelChunks& chunks, int stage, int allowance) {
  const std::vector<Pass> forwards = chunks.forwards();
  const std::vector<Pass> backwards = chunks.backwards();
  const auto ahead = static_cast<size_t>(chunks.most_in_flight(stage) + allowance);
  std::vector<Pass> order;
  for (size_t i = 0; i < forwards.size() + ahead; ++i) {
    if (i < forwards.size()) order.push_back(forwards[i]);
    if (i + 1 >= ahead && i + 1 - ahead < backwards.size())
      order.push_back(backwards[i + 1 - ahead]);
  }
  return order;
}

/// A stage's passes with what it receives before each and sends after it.
StageTasks tasks_of(const ModelChunks& chunks, int stage, const std::vector<Pass>& order) {
  using enum PipelineAction;
  StageTasks tasks;
  for (const Pass& pass : order) {
    const int chunk = chunks.model_chunk(stage, pass.chunk);
    const bool is_first = chunk == 0;
    const bool is_last = chunk == chunks.count() - 1;
    const auto add = [&](PipelineAction action) {
      tasks.push_back({action, pass.microbatch, pass.chunk});
    };
    if (pass.backward) {
      if (!is_last) add(receive_gradient);
      add(backward);
      if (!is_first) add(send_gradient);
    } else {
      if (!is_first) add(receive_input);
      add(forward);
      if (!is_last) add(send_output);
    }
  }
  tasks.push_back({update, 0, 0});
  return tasks;
}

/// Plays the tasks of all stages, as fast as what they wait for allows.
class Check {
 public:
  Check(const PipelineShape& shape, const PipelineSchedule& schedule)
      : chunks_(shape),
        shape_(shape),
        schedule_(schedule),
        stages_(static_cast<size_t>(shape.stages)) {
    if (schedule.size() != stages_.size()) {
      fail(fmt::format("{} lists of tasks for {} stages", schedule.size(), stages_.size()));
    }
    for (Stage& stage : stages_) {
      stage.forward.assign(static_cast<size_t>(chunks_.passes_of_stage()), 0);
      stage.backward = stage.forward;
    }
  }

  PipelineReport run() {
    play();
    for (int s = 0; s < shape_.stages; ++s) check_end(s);
    return report();
  }

  /// Plays until the end, or until all stages wait for each other.
  bool completes() {
    play();
    for (int s = 0; s < shape_.stages; ++s) {
      if (!is_at_end(s)) return false;
    }
    return true;
  }

  struct Played {
    PipelineTask task;
    double begin, end;
  };
  std::vector<Played> played(int stage) const { return stages_[static_cast<size_t>(stage)].played; }

 private:
  struct Stage {
    size_t next = 0;
    double now = 0;
    double busy = 0;
    int in_flight = 0;
    int most_in_flight = 0;
    std::vector<int> forward, backward;  // How often each pass was done.
    std::vector<Played> played;
  };
  struct Message {
    bool gradient;
    int to;  // The model's chunk that takes it.
    int microbatch;
    auto operator<=>(const Message&) const = default;
  };

  [[noreturn]] static void fail(const std::string& what) {
    throw FailedPrecondition(fmt::format("pipeline schedule: {}", what));
  }

  static bool is_receive(PipelineAction action) {
    return action == PipelineAction::receive_input || action == PipelineAction::receive_gradient;
  }

  const PipelineTask& next_of(int s) const {
    return schedule_[static_cast<size_t>(s)][stages_[static_cast<size_t>(s)].next];
  }

  Message message_for(int s, const PipelineTask& task) const {
    return {task.action == PipelineAction::receive_gradient, chunks_.model_chunk(s, task.chunk),
            task.microbatch};
  }

  bool is_at_end(int s) const {
    return stages_[static_cast<size_t>(s)].next == schedule_[static_cast<size_t>(s)].size();
  }

  void play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < shape_.stages; ++s) {
        while (can_go_on(s)) {
          do_next(s);
          moved = true;
        }
      }
    }
  }

  bool can_go_on(int s) const {
    if (is_at_end(s)) return false;
    const PipelineTask& task = next_of(s);
    return !is_receive(task.action) || sent_.contains(message_for(s, task));
  }

  int& count_of(std::vector<int>& counts, const PipelineTask& task) const {
    return counts[static_cast<size_t>(task.chunk * shape_.microbatches + task.microbatch)];
  }

  void do_next(int s) {
    Stage& stage = stages_[static_cast<size_t>(s)];
    const PipelineTask& task = next_of(s);
    const int chunk = chunks_.model_chunk(s, task.chunk);
    const double before = stage.now;
    switch (task.action) {
      case PipelineAction::receive_input:
      case PipelineAction::receive_gradient:
        receive(stage, message_for(s, task));
        break;
      case PipelineAction::send_output:
        send(stage, {false, chunk + 1, task.microbatch});
        break;
      case PipelineAction::send_gradient:
        send(stage, {true, chunk - 1, task.microbatch});
        break;
      case PipelineAction::forward:
        forward(stage, s, task);
        break;
      case PipelineAction::backward:
        backward(stage, s, task);
        break;
      case PipelineAction::update:
        break;
    }
    if (stage.now > before && !is_receive(task.action))
      stage.played.push_back({task, before, stage.now});
    ++stage.next;
  }

  void send(const Stage& stage, const Message& message) {
    if (!sent_.emplace(message, stage.now).second) fail("a message is sent twice");
    const auto same_link = [&](const auto& other) {
      return other.first.gradient == message.gradient && other.first.to == message.to;
    };
    most_messages_ =
        std::max(most_messages_, static_cast<int>(std::ranges::count_if(sent_, same_link)));
  }

  void receive(Stage& stage, const Message& message) {
    const auto found = sent_.find(message);
    stage.now = std::max(stage.now, found->second);
    sent_.erase(found);
    received_.insert(message);
  }

  void need(bool is_there, int s, const PipelineTask& task, std::string_view what) const {
    if (is_there) return;
    fail(fmt::format("stage {} does the {} pass of micro-batch {} in chunk {} {}", s,
                     task.action == PipelineAction::forward ? "forward" : "backward",
                     task.microbatch, task.chunk, what));
  }

  void forward(Stage& stage, int s, const PipelineTask& task) {
    const int chunk = chunks_.model_chunk(s, task.chunk);
    need(chunk == 0 || received_.contains({false, chunk, task.microbatch}), s, task,
         "before its input came");
    need(++count_of(stage.forward, task) == 1, s, task, "twice");
    stage.most_in_flight = std::max(stage.most_in_flight, ++stage.in_flight);
    work(stage, kForwardTime);
  }

  void backward(Stage& stage, int s, const PipelineTask& task) {
    const int chunk = chunks_.model_chunk(s, task.chunk);
    need(count_of(stage.forward, task) == 1, s, task, "before the forward pass");
    need(chunk == chunks_.count() - 1 || received_.contains({true, chunk, task.microbatch}), s,
         task, "before its gradient came");
    need(++count_of(stage.backward, task) == 1, s, task, "twice");
    --stage.in_flight;
    work(stage, kBackwardTime);
  }

  void work(Stage& stage, int units) const {
    const double time = static_cast<double>(units) / shape_.chunks;
    stage.now += time;
    stage.busy += time;
  }

  void check_end(int s) const {
    const Stage& stage = stages_[static_cast<size_t>(s)];
    const StageTasks& tasks = schedule_[static_cast<size_t>(s)];
    if (stage.next < tasks.size()) {
      const PipelineTask& task = tasks[stage.next];
      fail(fmt::format("stage {} waits for ever for the {} of micro-batch {} in chunk {}", s,
                       task.action == PipelineAction::receive_input ? "input" : "gradient",
                       task.microbatch, task.chunk));
    }
    const auto once = [](int count) { return count == 1; };
    if (!std::ranges::all_of(stage.forward, once) || !std::ranges::all_of(stage.backward, once)) {
      fail(fmt::format("stage {} leaves a pass out", s));
    }
    const auto updates = std::ranges::count(tasks, PipelineAction::update, &PipelineTask::action);
    if (updates != 1 || tasks.back().action != PipelineAction::update) {
      fail(fmt::format("stage {} does not end with its one update", s));
    }
  }

  PipelineReport report() const {
    PipelineReport report;
    double busy = 0;
    for (const Stage& stage : stages_) {
      report.time = std::max(report.time, stage.now);
      busy += stage.busy;
      report.in_flight.push_back(stage.most_in_flight);
      report.held.push_back(static_cast<double>(stage.most_in_flight) / shape_.chunks);
    }
    report.bubble = 1 - busy / (report.time * shape_.stages);
    report.messages = most_messages_;
    return report;
  }

  ModelChunks chunks_;
  const PipelineShape& shape_;
  const PipelineSchedule& schedule_;
  std::vector<Stage> stages_;
  std::map<Message, double> sent_;  // And when.
  std::set<Message> received_;
  int most_messages_ = 0;
};

}  // namespace

PipelineSchedule make_schedule(const PipelineShape& shape) {
  check(shape);
  const ModelChunks chunks(shape);
  for (int allowance = 0;; ++allowance) {
    PipelineSchedule schedule;
    for (int s = 0; s < shape.stages; ++s) {
      schedule.push_back(tasks_of(chunks, s, order_of(chunks, s, allowance)));
    }
    // With all forward passes first nobody waits for ever, so this comes to an end.
    if (Check(shape, schedule).completes()) return schedule;
  }
}

PipelineReport check_schedule(const PipelineShape& shape, const PipelineSchedule& schedule) {
  return Check(shape, schedule).run();
}

std::string picture_of(const PipelineShape& shape, const PipelineSchedule& schedule) {
  Check play(shape, schedule);
  play.run();
  const int width = static_cast<int>(std::to_string(shape.microbatches - 1).size()) + 1;
  std::string picture;
  for (int s = 0; s < shape.stages; ++s) {
    std::string line;
    for (const auto& [task, begin, end] : play.played(s)) {
      const auto column = [&](double time) {
        return static_cast<size_t>(time * shape.chunks + 0.5) * width;
      };
      line.resize(std::max(line.size(), column(begin)), ' ');
      const bool backward = task.action == PipelineAction::backward;
      std::string box =
          backward ? fmt::format("[{}]", task.microbatch) : fmt::format("{}", task.microbatch);
      box.resize(column(end) - column(begin), ' ');
      line += box;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    picture += fmt::format("stage {}  {}\n", s, line);
  }
  return picture;
}

PipelineKind pipeline_kind(std::string_view name) {
  for (const PipelineKind kind :
       {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::interleaved}) {
    if (name == name_of(kind)) return kind;
  }
  throw InvalidArgument(fmt::format(
      "pipeline: no schedule '{}'; the schedules are gpipe, 1f1b and interleaved", name));
}

std::string_view name_of(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::gpipe:
      return "gpipe";
    case PipelineKind::one_f_one_b:
      return "1f1b";
    case PipelineKind::interleaved:
      return "interleaved";
  }
  return "";
}

}  // namespace tandem::graph
