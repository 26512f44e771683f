#include "function/function_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "function/compile_pipeline.h"
#include "function/compile_segment.h"
#include "graph/function_placement.h"
#include "graph/passes/passes.h"
#include "profile/span.h"
#include "tandem/config.h"
#include "tandem/error.h"
#include "tandem/log.h"
#include "tensor/store.h"

namespace tandem::graph {
namespace {

using devices::DevicePtr;

std::string names_of(const std::vector<DevicePtr>& devices) {
  std::string text;
  for (const DevicePtr& device : devices) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", device->name());
  }
  return text;
}

std::string str(const FunctionTarget& target) {
  if (target.replicas) return fmt::format("on the replicas {}", names_of(target.replicas->devices));
  return target.device ? fmt::format("on {}", target.device->name()) : "where its variables are";
}

/// Replicas have their own devices.
void check_devices(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!node.device) continue;
    throw FailedPrecondition(fmt::format(
        "{}: a scope for {} inside strategy.run, whose replicas have their own devices; take the "
        "scope away, or call the function without a strategy",
        node.op().name, node.device->name()));
  }
}

/// Replicas use the variables of their own strategy, and read those that belong to none: others
/// would get the update of some of their replicas.
void check_variables(const Graph& graph, const Replicas& replicas) {
  for (const Node& node : graph.nodes) {
    for (ValueId range : node.ranges) {
      const Value& variable = graph.at(range);
      const StoreBlock& block = *variable.range.block;
      const bool is_read = !node.op().writes_ranges;
      if (block.owner() == replicas.owner || (block.owner() == 0 && is_read)) continue;
      throw FailedPrecondition(fmt::format(
          "{} inside strategy.run on {}: its variable {} {} was created {}, on {}; "
          "create it in the scope of the strategy that runs the function",
          node.op().name, names_of(replicas.devices), variable.range.name(), variable.type.str(),
          block.owner() == 0 ? "outside of any strategy's scope" : "in another strategy's scope",
          names_of(block.devices())));
    }
  }
}

op::TensorTypes types_of(const Arguments& arguments) {
  op::TensorTypes types;
  for (const Argument& argument : arguments.tensors) types.push_back(type_of(argument.of(0)));
  return types;
}

/// The same with any number of rows.
op::TensorTypes symbolic_types(const Arguments& arguments) {
  op::TensorTypes types;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Tensor& tensor = arguments.tensor(i);
    types.push_back(
        {tensor.dtype(), arguments.is_batched(i) ? tensor.shape().with(0, -1) : tensor.shape()});
  }
  return types;
}

/// The rows of a micro-batch, of the largest where they differ.
int64_t rows_of_microbatch(const Arguments& arguments, const Replicas& replicas) {
  if (arguments.rows != Arguments::kUnequal) return arguments.rows;
  const int64_t shards = replicas.count() / replicas.model;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Argument& argument = arguments.tensors[i];
    if (argument.kind != Argument::Kind::rows) continue;
    return (argument.of(0).shape().extent(0) + shards - 1) / shards;
  }
  return kNominalRows;
}

/// While it lives, this thread is the one that traces.
class Tracing {
 public:
  explicit Tracing(std::atomic<std::thread::id>& tracer)
      : tracer_(tracer), former_(tracer.exchange(std::this_thread::get_id())) {}
  ~Tracing() { tracer_ = former_; }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  std::atomic<std::thread::id>& tracer_;
  const std::thread::id former_;
};

/// True when a tensor of this shape can be what was declared; sizes of -1 are free.
bool matches(const Shape& declared, const Shape& shape) {
  if (declared.rank() != shape.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (declared.extent(axis) >= 0 && declared.extent(axis) != shape.extent(axis)) return false;
  }
  return true;
}

/// The first difference between two kinds of arguments, for people.
std::string difference(const ConcreteFunction& a, const ConcreteFunction& b) {
  if (a.arguments.size() != b.arguments.size()) {
    return fmt::format("{} tensors, then {}", a.arguments.size(), b.arguments.size());
  }
  for (size_t i = 0; i < a.arguments.size(); ++i) {
    const op::TensorType& was = a.arguments[i];
    const op::TensorType& is = b.arguments[i];
    if (was != is) {
      return fmt::format("argument {} was {}, then {}", i, was.str(), is.str());
    }
  }
  if (a.rest != b.rest) {
    return fmt::format(
        "a plain value or the length of a list was '{}', then '{}'; pass numbers that change as "
        "tensors",
        a.rest, b.rest);
  }
  return fmt::format("it was to run {}, then {}", str(a.target), str(b.target));
}

}  // namespace

bool Arguments::is_batched(size_t argument) const {
  const Shape& shape = tensor(argument).shape();
  if (shape.rank() == 0) return false;
  switch (batch) {
    case Batch::by_replica:
      return tensors[argument].differs();
    case Batch::as_declared:
      return declared[argument].shape.leading_extent() < 0;
    case Batch::by_size:
      break;
  }
  return shape.extent(0) == rows;
}

ArgumentList argument_list(std::span<const Tensor> tensors) {
  ArgumentList list;
  for (const Tensor& tensor : tensors) list.push_back({&tensor});
  return list;
}

int64_t leading_size(std::span<const Argument> arguments) {
  const auto first =
      std::ranges::find_if(arguments, [](const Argument& each) { return each.of(0).rank() > 0; });
  return first == arguments.end() ? 1 : first->of(0).shape().extent(0);
}

bool ConcreteFunction::fits(const Arguments& given, const FunctionTarget& wanted) const {
  if (given.tensors.size() != arguments.size() || wanted != target) return false;
  if (given.rest != rest || (rows && *rows != given.rows)) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Shape& traced = arguments[i].shape;
    const Tensor& tensor = given.tensor(i);
    const Shape& shape = tensor.shape();
    if (tensor.dtype() != arguments[i].dtype || shape.rank() != traced.rank()) return false;
    const bool is_batched = given.is_batched(i);
    const bool is_told = given.batch != Arguments::Batch::by_size;
    if (is_split(i) ? !is_batched : is_told && is_batched) return false;
    for (int axis = 0; axis < traced.rank(); ++axis) {
      if (traced.extent(axis) >= 0 && shape.extent(axis) != traced.extent(axis)) return false;
    }
  }
  return true;
}

std::unique_lock<core::TimedMutex> FunctionBody::lock() const {
  if (tracer_ == std::this_thread::get_id()) return {};
  std::unique_lock lock(mutex_, std::try_to_lock);
  const auto deadline = config::wait_deadline();
  if (!lock && !lock.try_lock_for(deadline)) {
    throw DeadlineExceeded(fmt::format("{}: another thread's trace of it did not end within {} s",
                                       options_.name,
                                       std::chrono::duration<double>(deadline).count()));
  }
  return lock;
}

std::vector<ConcreteFunctionPtr> FunctionBody::concrete_functions() const {
  const auto lock = this->lock();
  return concrete_functions_;
}

FunctionBody::FunctionBody(StructuredFn f, FunctionOptions options)
    : f_(std::move(f)), options_(std::move(options)) {}

ConcreteFunctionPtr FunctionBody::find_for_scope(Arguments& arguments) {
  if (options_.input_signature.empty()) {
    arguments.rows = leading_size(arguments.tensors);
  } else {
    check_signature(arguments);
    take_declared_batch(arguments);
  }
  const devices::DevicePtr* scoped = asked_by_scope();
  return find_or_compile(arguments, {.device = scoped ? *scoped : nullptr});
}

void FunctionBody::trace(Arguments arguments) { find_for_scope(arguments); }

void FunctionBody::check_signature(const Arguments& arguments) const {
  const auto& declared = options_.input_signature;
  if (declared.empty()) return;
  if (declared.size() != arguments.tensors.size()) {
    throw InvalidArgument(fmt::format("{}: {} tensors given, the input signature has {}",
                                      options_.name, arguments.tensors.size(), declared.size()));
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    const Tensor& given = arguments.tensor(i);
    const bool is_split =
        arguments.batch == Arguments::Batch::by_replica && arguments.is_batched(i);
    if (given.dtype() != declared[i].dtype || !matches(declared[i].shape, given.shape())) {
      throw InvalidArgument(fmt::format("{}: argument {} is {}, the input signature says {}",
                                        options_.name, i, type_of(given).str(), declared[i].str()));
    }
    if (is_split && declared[i].shape.extent(0) >= 0) {
      throw InvalidArgument(
          fmt::format("{}: argument {} has rows for each replica, the input signature says {}; "
                      "declare its leading size as -1",
                      options_.name, i, declared[i].str()));
    }
  }
}

/// The batch: the arguments that were declared with any number of rows.
void FunctionBody::take_declared_batch(Arguments& arguments) const {
  arguments.batch = Arguments::Batch::as_declared;
  arguments.declared = options_.input_signature;
  std::optional<size_t> first;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (!arguments.is_batched(i)) continue;
    if (!first) first = i;
    const int64_t rows = arguments.tensor(*first).shape().extent(0);
    const int64_t own = arguments.tensor(i).shape().extent(0);
    if (rows == own) continue;
    throw InvalidArgument(fmt::format(
        "{}: argument {} has {} rows, argument {} has {}; the input signature declares both with "
        "-1, which stands for the same number",
        options_.name, *first, rows, i, own));
  }
  arguments.rows = first ? arguments.tensor(*first).shape().extent(0) : 1;
}

ConcreteFunctionPtr FunctionBody::find_or_compile(const Arguments& arguments,
                                                  const FunctionTarget& target) {
  const auto lock = this->lock();
  ++calls_;
  for (const auto& candidate : concrete_functions_) {
    if (candidate->fits(arguments, target)) return candidate;
  }
  const Tracing tracing(tracer_);
  concrete_functions_.push_back(compile(arguments, target));
  warn_of_retraces(*concrete_functions_.back());
  return concrete_functions_.back();
}

/// Tracing is slow; a function that does so at most of its calls is not what its user had in mind.
void FunctionBody::warn_of_retraces(const ConcreteFunction& latest) {
  trace_calls_.push_back(calls_);
  if (trace_calls_.size() < traces_to_warn_of_ || concrete_functions_.size() < 2) return;
  const uint64_t calls = calls_ - trace_calls_[trace_calls_.size() - traces_to_warn_of_] + 1;
  if (calls <= traces_to_warn_of_ + traces_to_warn_of_ / 5) {
    logging::write(
        logging::Level::warning,
        fmt::format("{}: traced in {} of its last {} calls, which is slow; {}", options_.name,
                    traces_to_warn_of_, calls,
                    difference(*concrete_functions_[concrete_functions_.size() - 2], latest)));
    trace_calls_.clear();
    traces_to_warn_of_ *= 4;  // Whoever has read it need not read it again soon.
  }
}

Graph FunctionBody::trace_graph(const Arguments& arguments, ConcreteFunction& concrete,
                                const Replicas* replicas) {
  ++trace_count_;
  std::optional<CreationBan> ban;
  if (has_traced_) {
    ban.emplace(fmt::format(
        "{} may create variables on its first call only; create it outside, or keep the one of "
        "the first call",
        options_.name));
  }
  const TensorFn f = [&](const Tensors& symbolic) {
    auto traced = f_(symbolic, arguments.structure);
    concrete.structure = traced.structure;
    return traced.results;
  };
  const bool agree = arguments.rows != Arguments::kUnequal;
  Graph graph = Trace::of(f, concrete.arguments, replicas ? replicas->count() : 1,
                          agree ? std::optional(arguments.rows) : std::nullopt,
                          replicas ? replicas->model : 1, replicas && replicas->pipeline);
  concrete.rows = graph.rows;
  has_traced_ = true;
  return graph;
}

ConcreteFunctionPtr FunctionBody::compile(const Arguments& arguments,
                                          const FunctionTarget& target) {
  const Replicas* replicas = target.replicas.get();
  auto result = std::make_shared<ConcreteFunction>();
  result->target = target;
  result->arguments = symbolic_types(arguments);
  result->rest = arguments.rest;
  Graph graph;
  try {
    graph = trace_graph(arguments, *result, replicas);
  } catch (const InvalidArgument&) {
    // What does not work for any number of rows may still work for this one. Replicas differ in
    // theirs.
    if (replicas != nullptr && replicas->count() > 1) throw;
    result->arguments = types_of(arguments);
    graph = trace_graph(arguments, *result, replicas);
  }
  if (target.replicas && target.replicas->pipeline) {
    check_variables(graph, *target.replicas);
    result->results.resize(graph.results.size());
    const int64_t rows = rows_of_microbatch(arguments, *target.replicas);
    result->pipeline = compile_pipeline(std::move(graph), *target.replicas, rows);
    return result;
  }
  if (target.replicas) {
    check_devices(graph);
    check_variables(graph, *target.replicas);
    if (target.replicas->adapt) target.replicas->adapt(graph);
    result->results.resize(graph.results.size());
    result->segments.push_back(
        compile_segment(std::move(graph), target.replicas, Executions::Calls::side_by_side));
    return result;
  }
  const FunctionPlacement placement =
      place_function(graph, target.device ? &target.device : nullptr);
  Partition cut = partition(std::move(graph), placement);
  result->results = std::move(cut.results);
  // Calls of several segments take turns as a whole.
  const auto calls =
      cut.segments.size() > 1 ? Executions::Calls::in_turn : Executions::Calls::side_by_side;
  result->segments = compile_segments(std::move(cut.segments), calls);
  return result;
}

FunctionBody::Called FunctionBody::call(Arguments arguments) {
  Called called{.concrete = find_for_scope(arguments)};
  const ConcreteFunction& concrete = *called.concrete;
  if (concrete.segments.size() > 1) {
    const profile::Span step("step", profile::Activity::step);
    called.tensors =
        run_segments(options_.name, concrete.segments, arguments.tensors, arguments.rows);
  } else {
    const BatchShard shard{.rows = arguments.rows};
    called.results = run(concrete, {.tensors = arguments.tensors, .shards = {&shard, 1}});
  }
  return called;
}

Results FunctionBody::run(const ConcreteFunction& concrete, const RunArguments& arguments) const {
  const profile::Span step("step", profile::Activity::step);
  if (concrete.pipeline) return concrete.pipeline->run(options_.name, arguments);
  return concrete.segments[0].executions->run(options_.name, arguments);
}

std::string FunctionBody::explain() const {
  std::string text;
  for (const auto& concrete : concrete_functions()) {
    text += fmt::format("function({})\n", listed(concrete->arguments));
    if (concrete->pipeline) {
      text += concrete->pipeline->explain(options_.name, concrete->rows.value_or(kNominalRows));
      continue;
    }
    for (const CompiledSegment& segment : concrete->segments)
      text += segment.executions->explain(options_.name);
    text += explain_edges(concrete->segments, concrete->arguments.size(),
                          concrete->rows.value_or(kNominalRows));
  }
  return text;
}

void FunctionBody::forget(const ConcreteFunction& concrete) {
  const auto lock = this->lock();
  std::erase_if(concrete_functions_,
                [&](const ConcreteFunctionPtr& each) { return each.get() == &concrete; });
  trace_calls_.clear();  // Whoever tries several programs need not be warned.
}

MemoryPlan FunctionBody::memory_plan(int64_t rows) const {
  const std::vector<ConcreteFunctionPtr> concrete_functions = this->concrete_functions();
  if (concrete_functions.empty()) {
    throw FailedPrecondition(fmt::format(
        "{}: not traced yet; call it, or trace() with arguments of the right kind", options_.name));
  }
  return memory_plan(*concrete_functions.back(), rows);
}

MemoryPlan FunctionBody::memory_plan(const ConcreteFunction& concrete, int64_t rows) const {
  constexpr int64_t kMost = int64_t{1} << 40;  // Their bytes still fit into 64 bits.
  if (rows < 0 || rows > kMost) {
    throw InvalidArgument(
        fmt::format("{}: a memory plan for {} rows; give 0 to {}", options_.name, rows, kMost));
  }
  if (concrete.rows && *concrete.rows != rows) {
    throw InvalidArgument(fmt::format(
        "{}: a memory plan for {} rows; it reads the number of rows, and was traced for {} alone",
        options_.name, rows, *concrete.rows));
  }
  if (concrete.pipeline) return concrete.pipeline->memory_plan(rows);
  return memory_plan_of(concrete.segments, concrete.arguments.size(), rows);
}

}  // namespace tandem::graph
