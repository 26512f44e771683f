#include "execution/pipeline/pipeline_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/named_error.h"
#include "device/transfer.h"
#include "execution/pipeline/pipeline_wiring.h"
#include "graph/group_exchange.h"
#include "profile/row_scope.h"
#include "profile/span.h"
#include "runtime/random_calls.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tensor/row_slices.h"

namespace tandem::graph {
namespace {

/// Behind the keys of messages between passes come those of what runs once.
constexpr uint32_t kOnceKeys = 1 << 21;
/// The key of results that members of a stage tell each other.
constexpr uint32_t kMemberKey = 1 << 22;

void send(op::Group& group, int to, uint32_t key, const Tensors& tensors, const std::string& name) {
  std::vector<op::Piece> pieces;
  for (const Tensor& tensor : tensors) {
    pieces.push_back({tensor.body()->data(), tensor.shape().count(), tensor.dtype()});
  }
  group.send({.peer = to, .key = key, .pieces = pieces, .name = name});
}

/// New tensors of these types.
Tensors receive(op::Group& group, int from, uint32_t key, const op::TensorTypes& types,
                int64_t rows, const std::string& name) {
  const profile::Span waiting("wait for a stage", profile::Activity::wait);
  Tensors tensors;
  std::vector<op::Piece> pieces;
  for (const op::TensorType& type : types) {
    auto body = new_body(devices::host_device(), type.dtype, type.shape.resolved(rows));
    pieces.push_back({body->data(), body->shape.count(), type.dtype});
    tensors.emplace_back(std::move(body));
  }
  group.receive({.peer = from, .key = key, .pieces = pieces, .name = name});
  return tensors;
}

}  // namespace

/// What the threads of a run share.
struct PipelineRun::Step {
  const std::string& function;
  const RunArguments& arguments;
  op::RandomRun random;

  std::mutex mutex{};
  std::condition_variable changed{};
  std::vector<Tensors> tensors{};                  // By micro-batch, each member's in turn.
  std::vector<std::vector<Tensors>> of_members{};  // Results of members in other processes.
  std::vector<std::vector<int>> uses{};            // By micro-batch, those to come of each tensor.
  std::vector<std::vector<bool>> is_done{};        // By micro-batch, by segment.
  std::vector<std::vector<bool>> is_coming{};      // The same: somebody receives its results.
  std::exception_ptr error{};                      // The first one.
};

PipelineRun::PipelineRun(PipelinedFunction function, std::shared_ptr<const Pipeline> pipeline,
                         int microbatches, std::shared_ptr<op::Group> group,
                         std::shared_ptr<Agreement> agreement)
    : function_(std::move(function)),
      pipeline_(std::move(pipeline)),
      group_(std::move(group)),
      agreement_(std::move(agreement)),
      shape_(pipeline_->shape(microbatches)),
      schedule_(make_schedule(shape_)) {
  check_schedule(shape_, schedule_);
  auto wiring = std::make_unique<Wiring>();
  std::vector<int> producer(function_.arguments, -1);
  const std::vector<CompiledSegment>& segments = function_.each[0];
  for (size_t s = 0; s < segments.size(); ++s) {
    std::vector<size_t> needs;
    for (int input : segments[s].inputs) {
      const int from = producer[static_cast<size_t>(input)];
      if (from >= 0 && std::ranges::find(needs, static_cast<size_t>(from)) == needs.end()) {
        needs.push_back(static_cast<size_t>(from));
      }
    }
    wiring->needs.push_back(std::move(needs));
    wiring->first_result.push_back(producer.size());
    producer.resize(producer.size() + function_.result_types[s].size(), static_cast<int>(s));
  }
  for (size_t p = 0; p < function_.each.size(); ++p) {
    std::vector<int>& uses = wiring->uses.emplace_back(producer.size(), 0);
    // By tensor, the processes that need it.
    std::vector<ProcessList> users(producer.size());
    const auto use = [&](int tensor, const ProcessList& who) {
      ProcessList& known = users[static_cast<size_t>(tensor)];
      known = united(known, who);
      if (includes(who, stages().own_process)) ++uses[static_cast<size_t>(tensor)];
    };
    for (size_t s = 0; s < segments.size(); ++s) {
      const int process = stages().process_of(chunk_of(s), static_cast<int>(p));
      for (int input : segments[s].inputs) use(input, {process});
    }
    for (const MicrobatchCut::Result& result : function_.results) {
      if (result.of_each) use(result.tensor, stages().all_processes);
    }
    auto& sendings = wiring->sendings.emplace_back(segments.size());
    for (size_t t = function_.arguments; t < producer.size(); ++t) {
      const auto s = static_cast<size_t>(producer[t]);
      for (int to : users[t]) {
        if (to == stages().process_of(chunk_of(s), static_cast<int>(p))) continue;
        auto known = std::ranges::find(sendings[s], to, &Wiring::Sending::to);
        if (known == sendings[s].end()) known = sendings[s].insert(known, {to, {}});
        known->tensors.push_back(static_cast<int>(t));
      }
    }
  }
  wiring_ = std::move(wiring);
}

PipelineRun::~PipelineRun() = default;

int PipelineRun::chunk_of(size_t segment) const {
  return static_cast<int>(std::min(segment, function_.each[0].size() - 1 - segment));
}

int PipelineRun::segment_of(int stage, const PipelineTask& task) const {
  const int chunk = task.chunk * shape_.stages + stage;
  const int last = static_cast<int>(function_.each[0].size()) - 1;
  if (task.action == PipelineAction::forward) return chunk;
  if (task.action != PipelineAction::backward || 2 * chunk == last) return -1;
  return last - chunk;
}

std::string PipelineRun::stage_name(int pipeline, int stage) const {
  if (!stages().is_here(stage, pipeline)) {
    return fmt::format("stage {} on {}", stage,
                       group_->describe(stages().process_of(stage, pipeline)));
  }
  return fmt::format("stage {} on {}", stage, stages().of_chunk(stage, pipeline)->name());
}

Results PipelineRun::run(const std::string& function, const RunArguments& arguments) {
  std::unique_lock turn(mutex_, std::try_to_lock);
  if (!turn && !turn.try_lock_for(config::wait_deadline())) {
    throw DeadlineExceeded(
        fmt::format("{}: a call from another thread did not end within the deadline", function));
  }
  const auto microbatches = static_cast<size_t>(this->microbatches());
  const uint64_t calls = function_.random_calls;
  Step step{
      .function = function,
      .arguments = arguments,
      .random = group_ ? runtime::next_shared_random_run(calls) : runtime::next_random_run(calls)};
  const std::vector<bool> none(function_.each[0].size(), false);
  step.tensors.assign(microbatches, Tensors(wiring_->tensors() * members()));
  for (int m = 0; m < this->microbatches(); ++m) step.uses.push_back(wiring_->uses[pipeline_of(m)]);
  step.is_done.assign(microbatches, none);
  step.is_coming.assign(microbatches, none);
  run_first(step);
  copy_variables();
  run_stages(step);
  try {
    if (step.error) std::rethrow_exception(step.error);
    const Tensors once = run_once(step);
    receive_rest(step);
    tell_members(step);
    end_together();
    return Results(results_of(step, once));
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (const Unavailable& gone) {
    if (!group_) throw;
    throw Unavailable(fmt::format("{}; {}", gone.what(), explain_processes()));
  } catch (...) {
    group_ ? runtime::take_back_shared(step.random, calls) : runtime::take_back(step.random, calls);
    throw;
  }
}

/// The type of what a pass computes of so many rows.
op::TensorType PipelineRun::type_of_result(size_t tensor, int64_t rows) const {
  const size_t segment = wiring_->producer_of(static_cast<int>(tensor));
  op::TensorType type = function_.result_types[segment][tensor - wiring_->first_result[segment]];
  type.shape = type.shape.resolved(rows);
  return type;
}

/// By replica, its results of the run.
std::vector<Tensors> PipelineRun::results_of(const Step& step, const Tensors& once) const {
  std::vector<Tensors> results(static_cast<size_t>(microbatches()) * replicas_each());
  for (size_t r = 0; r < results.size(); ++r) {
    const size_t member = r % replicas_each();
    const std::vector<Tensors>& tensors =
        is_elsewhere(member) ? step.of_members[member] : step.tensors;
    for (const MicrobatchCut::Result& result : function_.results) {
      const auto tensor = static_cast<size_t>(result.tensor);
      results[r].push_back(
          result.of_each ? tensors[r / replicas_each()][tensor * members() + member % members()]
                         : once[tensor]);
    }
  }
  return results;
}

/// Members that are processes tell each other what they have as results of the micro-batches.
void PipelineRun::tell_members(Step& step) const {
  if (stages().member_processes == 1) return;
  constexpr const char* kName = "results of the members of a stage";
  std::vector<std::pair<size_t, size_t>> places;  // Micro-batch and tensor.
  for (size_t m = 0; m < step.tensors.size(); ++m) {
    for (const MicrobatchCut::Result& result : function_.results) {
      if (result.of_each) places.emplace_back(m, static_cast<size_t>(result.tensor));
    }
  }
  if (places.empty()) return;
  Tensors own;
  for (const auto& [m, tensor] : places) {
    own.push_back(on_device(step.tensors[m][tensor], devices::host_device()));
  }
  op::Group& along_members = *stages().along_members;
  for (int member = 0; member < stages().member_processes; ++member) {
    if (is_elsewhere(static_cast<size_t>(member))) {
      send(along_members, member, kMemberKey, own, kName);
    }
  }
  step.of_members.resize(replicas_each());
  for (int member = 0; member < stages().member_processes; ++member) {
    if (!is_elsewhere(static_cast<size_t>(member))) continue;
    op::TensorTypes types;
    for (const auto& [m, tensor] : places) {
      const size_t replica = m * replicas_each() + static_cast<size_t>(member);
      types.push_back(type_of_result(tensor, step.arguments.shards[replica].rows));
    }
    const Tensors got = receive(along_members, member, kMemberKey, types, 1, kName);
    auto& tensors = step.of_members[static_cast<size_t>(member)];
    tensors.assign(step.tensors.size(), Tensors(wiring_->tensors()));
    for (size_t i = 0; i < got.size(); ++i) tensors[places[i].first][places[i].second] = got[i];
  }
}

namespace {

/// Calls visit(from, to, part) for each memory space that has a copy of a variable, or of a part.
template <class Visit>
void for_each_edge(const VariableCopy& copy, const Visit& visit) {
  const auto& copies = copy.to.block->components();
  for (size_t i = 0; i < copies.size(); ++i) {
    const int part = copy.to.block->part_of_component(i);
    visit(*copy.from.block->component_of_part(part)->device(), *copies[i]->device(), part);
  }
}

}  // namespace

/// Stages that use a variable of another one's memory get its value, behind what they were asked
/// before.
void PipelineRun::copy_variables() const {
  for (const VariableCopy& copy : function_.copies) {
    const size_t bytes = static_cast<size_t>(copy.from.count) * size_of(copy.from.block->dtype());
    const auto keep = std::make_shared<VariableCopy>(copy);
    for_each_edge(copy, [&](devices::Device& from, devices::Device& to, int part) {
      StoreRange source = copy.from;
      StoreRange target = copy.to;
      source.part = target.part = part;
      devices::transfer(to, target.data(to), from, source.data(from), bytes, keep);
    });
  }
}

std::string PipelineRun::explain_copies() const {
  std::string text;
  for (const VariableCopy& copy : function_.copies) {
    const size_t bytes = static_cast<size_t>(copy.from.count) * size_of(copy.from.block->dtype());
    for_each_edge(copy, [&](const devices::Device& from, const devices::Device& to, int) {
      text +=
          fmt::format("variable {} is copied from {} to {} before each run, {}\n", copy.from.name(),
                      from.name(), to.name(), scaled(static_cast<double>(bytes), "B"));
    });
  }
  return text;
}

/// Each stage of this process on a thread, the first on the caller's.
void PipelineRun::run_stages(Step& step) const {
  std::vector<std::pair<int, int>> own;  // Pipeline and stage.
  for (int p = 0; p < pipelines(); ++p) {
    for (int stage = 0; stage < shape_.stages; ++stage) {
      if (stages().is_here(stage, p)) own.emplace_back(p, stage);
    }
  }
  std::vector<std::thread> others;
  for (size_t i = 1; i < own.size(); ++i) {
    others.emplace_back([&, i] { run_stage(step, own[i].first, own[i].second); });
  }
  run_stage(step, own[0].first, own[0].second);
  for (std::thread& thread : others) thread.join();
}

/// Does a stage's tasks in their order. What goes wrong ends all stages.
void PipelineRun::run_stage(Step& step, int pipeline, int stage) const {
  std::optional<profile::RowScope> row;
  if (shape_.stages > 1 && profile::is_profiling()) row.emplace(stage_name(pipeline, stage));
  try {
    for (const PipelineTask& task : schedule_[static_cast<size_t>(stage)]) {
      const int segment = segment_of(stage, task);
      if (segment < 0) continue;
      const int microbatch = pipeline * shape_.microbatches + task.microbatch;
      wait_for_inputs(step, static_cast<size_t>(segment), microbatch);
      {
        const std::lock_guard lock(step.mutex);
        if (step.error) return;
      }
      run_segment(step, static_cast<size_t>(segment), microbatch);
    }
  } catch (...) {
    {
      const std::lock_guard lock(step.mutex);
      if (!step.error) {
        step.error = shape_.stages > 1 ? core::named_error(stage_name(pipeline, stage))
                                       : std::current_exception();
      }
    }
    step.changed.notify_all();
    if (group_) give_up();
  }
}

/// Other stages of this process may wait for other processes: they are told of the exception that
/// is being handled.
void PipelineRun::give_up() const {
  try {
    throw;
  } catch (const Error& error) {
    group_->abort(fmt::format("{}: {}", error.kind(), error.what()));
  } catch (const std::exception& error) {
    group_->abort(error.what());
  }
}

void PipelineRun::wait_for_inputs(Step& step, size_t segment, int microbatch) const {
  const auto m = static_cast<size_t>(microbatch);
  const std::vector<size_t>& needs = wiring_->needs[segment];
  for (size_t from : needs) {
    if (is_here(pipeline_of(microbatch), from)) continue;
    {
      const std::lock_guard lock(step.mutex);
      if (step.error) return;
      if (step.is_coming[m][from]) continue;
      step.is_coming[m][from] = true;
    }
    receive_results(step, from, microbatch);
  }
  const auto& is_done = step.is_done[m];
  const auto missing = [&] {
    return std::ranges::find_if(needs, [&](size_t each) { return !is_done[each]; });
  };
  std::unique_lock lock(step.mutex);
  if (step.error || missing() == needs.end()) return;
  const profile::Span waiting("wait for a stage", profile::Activity::wait);
  const auto deadline = config::wait_deadline();
  const bool arrived =
      step.changed.wait_for(lock, deadline, [&] { return step.error || missing() == needs.end(); });
  if (arrived) return;
  throw DeadlineExceeded(fmt::format(
      "micro-batch {} did not come from {} within the deadline of {} s", microbatch,
      stage_name(static_cast<int>(pipeline_of(microbatch)), chunk_of(*missing()) % shape_.stages),
      std::chrono::duration<double>(deadline).count()));
}

void PipelineRun::run_segment(Step& step, size_t segment, int microbatch) const {
  const Results results =
      run_compiled(step, function_.each[pipeline_of(microbatch)][segment], microbatch);
  note_done(step, segment, microbatch, results);
  if (group_) send_results(segment, microbatch, results);
}

/// What comes before all passes is asked of each replica by itself.
void PipelineRun::run_first(const Step& step) const {
  const int replicas = microbatches() * stages().members_in_all();
  for (const CompiledSegment& first : function_.first) {
    for (int r = 0; r < replicas; ++r) {
      ArgumentList inputs;
      for (int input : first.inputs) {
        const Argument& given = step.arguments.tensors[static_cast<size_t>(input)];
        const bool own = given.kind == Argument::Kind::own;
        inputs.push_back(own ? Argument{given.tensors + r} : given);
      }
      first.executions->run(step.function,
                            {.tensors = inputs,
                             .shards = step.arguments.shards.subspan(static_cast<size_t>(r), 1),
                             .global_rows = step.arguments.global_rows,
                             .random = &step.random,
                             .microbatch = r,
                             .microbatches = replicas});
    }
  }
}

Results PipelineRun::run_compiled(const Step& step, const CompiledSegment& compiled,
                                  int microbatch) const {
  const auto m = static_cast<size_t>(microbatch);
  ArgumentList inputs;
  for (int input : compiled.inputs) {
    const auto tensor = static_cast<size_t>(input);
    if (tensor >= function_.arguments) {
      inputs.push_back({&step.tensors[m][tensor * members()], Argument::Kind::own});
    } else if (const Argument& given = step.arguments.tensors[tensor];
               given.kind == Argument::Kind::own) {
      inputs.push_back({given.tensors + first_replica(m), Argument::Kind::own});
    } else {
      inputs.push_back(given);
    }
  }
  return compiled.executions->run(
      step.function, {.tensors = inputs,
                      .shards = step.arguments.shards.subspan(first_replica(m), members()),
                      .global_rows = step.arguments.global_rows,
                      .random = &step.random,
                      .microbatch = microbatch,
                      .microbatches = microbatches()});
}

/// Hands the results on, and lets go of what nobody needs any more.
void PipelineRun::note_done(Step& step, size_t segment, int microbatch,
                            const Results& results) const {
  const auto m = static_cast<size_t>(microbatch);
  const std::lock_guard lock(step.mutex);
  for (size_t i = 0; i < results.count(); ++i) {
    const size_t tensor = wiring_->first_result[segment] + i;
    if (step.uses[m][tensor] == 0) continue;
    for (size_t k = 0; k < members(); ++k) {
      step.tensors[m][tensor * members() + k] = results.at(static_cast<int>(k), i);
    }
  }
  for (int input : function_.each[0][segment].inputs) {
    const auto tensor = static_cast<size_t>(input);
    if (--step.uses[m][tensor] > 0) continue;
    for (size_t k = 0; k < members(); ++k) step.tensors[m][tensor * members() + k] = Tensor();
  }
  step.is_done[m][segment] = true;
  step.changed.notify_all();
}

uint32_t PipelineRun::key_of(size_t segment, int microbatch) const {
  const auto key = static_cast<size_t>(microbatch) * function_.each[0].size() + segment;
  return static_cast<uint32_t>(key % kOnceKeys);
}

std::string PipelineRun::message_name(size_t segment, int microbatch) const {
  const size_t last_forward = (function_.each[0].size() - 1) / 2;
  return fmt::format("{} of chunk {}, micro-batch {}",
                     segment <= last_forward ? "activations" : "gradients", chunk_of(segment),
                     microbatch);
}

/// What other processes need of a segment's results goes there.
void PipelineRun::send_results(size_t segment, int microbatch, const Results& results) const {
  for (const Wiring::Sending& sending : wiring_->sendings[pipeline_of(microbatch)][segment]) {
    Tensors tensors;
    for (int tensor : sending.tensors) {
      const size_t index = static_cast<size_t>(tensor) - wiring_->first_result[segment];
      for (int k = 0; k < stages().member_count(); ++k) {
        tensors.push_back(on_device(results.at(k, index), devices::host_device()));
      }
    }
    send(*group_, sending.to, key_of(segment, microbatch), tensors,
         message_name(segment, microbatch));
  }
}

/// Takes what this process needs of another one's segment.
void PipelineRun::receive_results(Step& step, size_t segment, int microbatch) const {
  const auto m = static_cast<size_t>(microbatch);
  const size_t p = pipeline_of(microbatch);
  const Wiring::Sending& sending = *wiring_->sending(p, segment, stages().own_process);
  op::TensorTypes types;
  for (int tensor : sending.tensors) {
    const size_t index = static_cast<size_t>(tensor) - wiring_->first_result[segment];
    types.insert(types.end(), members(), function_.result_types[segment][index]);
  }
  const int from = stages().process_of(chunk_of(segment), static_cast<int>(p));
  Tensors tensors =
      receive(*group_, from, key_of(segment, microbatch), types,
              step.arguments.shards[first_replica(m)].rows, message_name(segment, microbatch));
  const std::lock_guard lock(step.mutex);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto tensor = static_cast<size_t>(sending.tensors[i / members()]);
    step.tensors[m][tensor * members() + i % members()] = std::move(tensors[i]);
  }
  step.is_done[m][segment] = true;
  step.changed.notify_all();
}

/// Results that no stage of this process has asked for.
void PipelineRun::receive_rest(Step& step) const {
  if (!group_) return;
  for (int m = 0; m < microbatches(); ++m) {
    for (size_t s = 0; s < function_.each[0].size(); ++s) {
      if (is_here(pipeline_of(m), s) || step.is_coming[static_cast<size_t>(m)][s]) continue;
      if (wiring_->sending(pipeline_of(m), s, stages().own_process) == nullptr) continue;
      receive_results(step, s, m);
    }
  }
}

/// Nobody leaves a run before all have come to its end; what they agree on rides along.
void PipelineRun::end_together() const {
  if (!group_) return;
  std::vector<op::Piece> pieces;
  if (agreement_) {
    agreement_->all = agreement_->own;
    pieces.push_back(
        {agreement_->all.data(), static_cast<int64_t>(agreement_->all.size()), DType::int64});
  }
  const auto arrived = std::chrono::steady_clock::now();
  group_->run({.pieces = pieces, .name = "the end of a pipeline's run"});
  if (!agreement_) return;
  agreement_->arrived = arrived;
  agreement_->left = std::chrono::steady_clock::now();
  agreement_->waited += agreement_->left - arrived;
}

/// The results of what runs once. Its tensors are each member's in turn.
Tensors PipelineRun::run_once(const Step& step) const {
  int64_t rows = 0;
  for (size_t r = 0; r < step.arguments.shards.size(); r += static_cast<size_t>(stages().model())) {
    rows += step.arguments.shards[r].rows;
  }
  const BatchShard whole_batch{.rows = rows};
  Tensors tensors(function_.arguments * members());
  uint32_t crossings = 0;
  for (const CompiledLevel& level : function_.once) {
    run_level(step, level, whole_batch, tensors);
    cross(level, kOnceKeys + crossings, tensors);
    crossings += static_cast<uint32_t>(level.crossings.size());
  }
  Tensors wanted;
  for (int tensor : function_.once_results) {
    wanted.push_back(tensors[static_cast<size_t>(tensor) * members()]);
  }
  return wanted;
}

void PipelineRun::run_level(const Step& step, const CompiledLevel& level,
                            const BatchShard& whole_batch, Tensors& tensors) const {
  Tensors own;
  for (int argument : level.arguments) {
    const size_t first = static_cast<size_t>(argument) * members();
    for (size_t k = 0; k < members(); ++k) {
      if (!tensors[first + k].defined()) {
        tensors[first + k] = whole(step.arguments.tensors[static_cast<size_t>(argument)].of(0));
      }
      own.push_back(tensors[first + k]);
    }
  }
  const std::vector<BatchShard> shards(members(), whole_batch);
  for (const CompiledSegment& segment : level.segments) {
    ArgumentList inputs;
    for (int input : segment.inputs) {
      inputs.push_back({&own[static_cast<size_t>(input) * members()], Argument::Kind::own});
    }
    const Results results =
        segment.executions->run(step.function, {.tensors = inputs,
                                                .shards = shards,
                                                .global_rows = step.arguments.global_rows,
                                                .random = &step.random});
    for (size_t i = 0; i < results.count(); ++i) {
      for (int k = 0; k < stages().member_count(); ++k) own.push_back(results.at(k, i));
    }
  }
  for (int result : level.results) {
    for (size_t k = 0; k < members(); ++k) {
      tensors.push_back(own[static_cast<size_t>(result) * members() + k]);
    }
  }
}

/// Sends what other processes need of a level, then takes what this one does; `key` is the first
/// one's.
void PipelineRun::cross(const CompiledLevel& level, uint32_t key, Tensors& tensors) const {
  constexpr const char* kName = "values that are computed once";
  for (size_t i = 0; i < level.crossings.size(); ++i) {
    const ProcessCrossing& crossing = level.crossings[i];
    if (crossing.from != stages().own_process) continue;
    const Tensor& own = tensors[static_cast<size_t>(crossing.tensor) * members()];
    for (int to : crossing.to) {
      send(*group_, to, key + static_cast<uint32_t>(i), {on_device(own, devices::host_device())},
           kName);
    }
  }
  for (size_t i = 0; i < level.crossings.size(); ++i) {
    const ProcessCrossing& crossing = level.crossings[i];
    if (!includes(crossing.to, stages().own_process)) continue;
    const Tensors got =
        receive(*group_, crossing.from, key + static_cast<uint32_t>(i), {crossing.type}, 1, kName);
    tensors.insert(tensors.end(), members(), got[0]);
  }
}

}  // namespace tandem::graph
