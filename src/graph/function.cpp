#include "tandem/function.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/scope.h"
#include "graph/function_body.h"
#include "tandem/error.h"

namespace tandem::graph {
namespace {

/// Where a program runs when nobody says: with the first variable it uses, else on the first
/// device.
devices::DevicePtr home_of(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.source == Value::Source::range) return value.range.block->components()[0]->device();
  }
  return devices::placement_order()[0];
}

/// True when all replicas address the same component of every variable.
bool shares_store(const std::vector<devices::DevicePtr>& devices) {
  return std::ranges::all_of(devices,
                             [&](const auto& d) { return &d->space() == &devices[0]->space(); });
}

op::TensorTypes symbolic_types(const Arguments& arguments) {
  op::TensorTypes types;
  for (size_t i = 0; i < arguments.tensors.size(); ++i) {
    const Tensor& tensor = arguments.tensors[i];
    types.push_back(
        {tensor.dtype(), arguments.is_batched(i) ? tensor.shape().with(0, -1) : tensor.shape()});
  }
  return types;
}

op::TensorTypes concrete_types(const Arguments& arguments) {
  op::TensorTypes types;
  for (const Tensor& tensor : arguments.tensors) types.push_back({tensor.dtype(), tensor.shape()});
  return types;
}

}  // namespace

bool Arguments::is_batched(size_t argument) const {
  if (batched) return (*batched >> argument & 1) != 0;
  const Shape& shape = tensors[argument].shape();
  return shape.rank() > 0 && shape[0] == rows;
}

Arguments arguments_of(std::span<const Tensor> tensors) {
  const auto first = std::ranges::find_if(tensors, [](const Tensor& t) { return t.rank() > 0; });
  return {tensors, first == tensors.end() ? 1 : first->shape()[0], {}};
}

bool Concrete::fits(const Arguments& given, Devices wanted) const {
  if (given.tensors.size() != arguments.size() || !std::ranges::equal(wanted, asked)) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Shape& traced = arguments[i].shape;
    const Shape& shape = given.tensors[i].shape();
    if (given.tensors[i].dtype() != arguments[i].dtype || shape.rank() != traced.rank())
      return false;
    if (is_split(i) && !given.is_batched(i)) return false;
    if (given.batched && given.is_batched(i) && !is_split(i)) return false;
    for (int axis = 0; axis < traced.rank(); ++axis) {
      if (traced[axis] >= 0 && shape[axis] != traced[axis]) return false;
    }
  }
  return true;
}

std::shared_ptr<Execution> FunctionBody::execution(const Concrete& concrete) const {
  std::lock_guard lock(mutex_);
  return concrete.execution;
}

std::shared_ptr<Concrete> FunctionBody::concrete(const Arguments& arguments, Devices devices) {
  std::lock_guard lock(mutex_);
  for (const auto& candidate : concretes_) {
    if (candidate->fits(arguments, devices)) return candidate;
  }
  concretes_.push_back(traced(arguments, devices));
  return concretes_.back();
}

std::shared_ptr<Concrete> FunctionBody::traced(const Arguments& arguments, Devices devices) {
  const int replicas = std::max(1, static_cast<int>(devices.size()));
  auto result = std::make_shared<Concrete>();
  result->asked.assign(devices.begin(), devices.end());
  result->arguments = symbolic_types(arguments);
  Graph graph;
  ++trace_count_;
  try {
    graph = Trace::of(f_, result->arguments, replicas);
  } catch (const InvalidArgument&) {
    // What does not work for any number of rows may still work for this one. Replicas differ in
    // theirs.
    if (replicas > 1) throw;
    ++trace_count_;
    result->arguments = concrete_types(arguments);
    graph = Trace::of(f_, result->arguments, replicas);
  }
  result->devices = devices.empty() ? std::vector{home_of(graph)} : result->asked;
  result->program =
      std::make_shared<Program>(std::move(graph), replicas, shares_store(result->devices));
  result->execution = std::make_shared<Execution>(result->program, result->devices);
  return result;
}

void FunctionBody::run(Concrete& concrete, Execution& execution) {
  try {
    execution.run();
  } catch (const DeadlineExceeded&) {
    std::lock_guard lock(mutex_);
    concrete.execution = std::make_shared<Execution>(concrete.program, concrete.devices);
    throw;
  }
}

template <class Take>
void FunctionBody::call(std::span<const Tensor> tensors, Take take) {
  const Arguments arguments = arguments_of(tensors);
  const devices::DevicePtr* scoped = devices::scope_device();
  const auto found = concrete(arguments, scoped ? Devices(scoped, 1) : Devices());
  const std::shared_ptr<Execution> execution = this->execution(*found);
  const auto lock = execution->lock();
  execution->set_shard(0, {.rows = arguments.rows}, arguments.rows);
  for (size_t i = 0; i < tensors.size(); ++i) execution->bind(0, static_cast<int>(i), tensors[i]);
  run(*found, *execution);
  take(*execution, found->results());
}

std::string FunctionBody::explain() const {
  std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& concrete : concretes_) {
    text += "function(";
    for (const op::TensorType& type : concrete->arguments) {
      text += fmt::format("{}{}{}", text.back() == '(' ? "" : ", ", name_of(type.dtype),
                          type.shape.str());
    }
    text += ") on";
    for (const auto& device : concrete->devices) text += fmt::format(" {}", device->name());
    text += fmt::format("\n{}", concrete->program->explain());
  }
  return text;
}

}  // namespace tandem::graph

namespace tandem {

namespace {

/// Within a trace a function becomes part of it; under a tape of the caller it runs op by op, so
/// that the tape sees what it does.
bool runs_inline() { return graph::Trace::current() != nullptr || !op::recorders().empty(); }

}  // namespace

FlatFunction::FlatFunction(TensorFn f)
    : body_(std::make_shared<graph::FunctionBody>(std::move(f))) {}

Tensors FlatFunction::operator()(std::span<const Tensor> arguments) const {
  if (runs_inline()) return body_->original()({arguments.begin(), arguments.end()});
  Tensors results;
  body_->call(arguments, [&](const graph::Execution& execution, size_t count) {
    for (size_t i = 0; i < count; ++i) results.push_back(execution.result(0, static_cast<int>(i)));
  });
  return results;
}

Tensor FlatFunction::single(std::span<const Tensor> arguments) const {
  const auto check_single = [](size_t count) {
    if (count == 1) return;
    throw InvalidArgument(fmt::format("function: {} results where one is expected", count));
  };
  if (runs_inline()) {
    const Tensors results = (*this)(arguments);
    check_single(results.size());
    return results[0];
  }
  Tensor result;
  body_->call(arguments, [&](const graph::Execution& execution, size_t count) {
    check_single(count);
    result = execution.result(0, 0);
  });
  return result;
}

int FlatFunction::trace_count() const { return body_->trace_count(); }
std::string FlatFunction::explain() const { return body_->explain(); }

}  // namespace tandem
