// The public handle of a function, and when it does not run as a program: within a trace it becomes
// part of that, and under a tape of the caller it runs op by op. FunctionBody has all the rest.
#include "tandem/function.h"

#include <fmt/format.h>

#include "function/function_body.h"
#include "ops/elementwise/number.h"
#include "runtime/random_calls.h"
#include "tandem/error.h"

namespace tandem {

std::string TensorSpec::str() const { return TensorType{dtype, shape}.str(); }

namespace {

/// Within a trace a function becomes part of it; under a tape of the caller it runs op by op, so
/// that the tape sees what it does.
bool runs_inline() { return graph::Trace::current() != nullptr || !op::recorders().empty(); }

Tensor only(const Tensors& results) {
  if (results.size() == 1) return results[0];
  throw InvalidArgument(fmt::format("function: {} results where one is expected", results.size()));
}

}  // namespace

FlatFunction::FlatFunction(StructuredFn f, FunctionOptions options)
    : body_(std::make_shared<graph::FunctionBody>(std::move(f), std::move(options))) {}

FlatFunction::FlatFunction(TensorFn f, FunctionOptions options)
    : FlatFunction(StructuredFn([f = std::move(f)](const Tensors& arguments, const void*) {
                     return Traced{f(arguments)};
                   }),
                   std::move(options)) {}

Tensors FlatFunction::operator()(std::span<const Tensor> arguments) const {
  return call({{arguments.begin(), arguments.end()}, {}}, nullptr).results;
}

FlatFunction::Traced FlatFunction::call(const structure::Flat& arguments,
                                        const void* structure) const {
  if (runs_inline()) {
    body_->check_signature({.tensors = graph::argument_list(arguments.tensors)});
    Tensors typed;  // Arguments of a program have dtypes, so plain numbers get theirs.
    for (const Tensor& argument : arguments.tensors) typed.push_back(ops::typed(argument));
    return body_->original()(typed, structure);
  }
  const auto called =
      body_->call({graph::argument_list(arguments.tensors), arguments.rest, structure});
  Traced traced{.results = {}, .structure = called.concrete->structure};
  for (size_t i = 0; i < called.count(); ++i) traced.results.push_back(called[i]);
  return traced;
}

Tensor FlatFunction::single(std::span<const Tensor> arguments) const {
  if (runs_inline()) return only((*this)(arguments));
  const auto called = body_->call({graph::argument_list(arguments)});
  return called.count() == 1 ? called[0] : only(Tensors(called.count()));
}

void FlatFunction::trace_flat(const structure::Flat& arguments, const void* structure) const {
  body_->trace({graph::argument_list(arguments.tensors), arguments.rest, structure});
}

int FlatFunction::trace_count() const { return body_->trace_count(); }
std::string FlatFunction::explain() const { return body_->explain(); }
MemoryPlan FlatFunction::memory_plan(int64_t rows) const { return body_->memory_plan(rows); }

std::string FlatFunction::memory_table(const std::vector<int64_t>& rows) const {
  constexpr double kMiB = 1 << 20;
  std::string table;
  for (const int64_t count : rows) {
    const MemoryPlan plan = memory_plan(count);
    if (table.empty()) {
      table = fmt::format("{:>10}", "rows");
      for (const MemoryPlan::Device& device : plan.devices)
        table += fmt::format("  {:>16}", device.name);
      table += "\n";
    }
    table += fmt::format("{:>10}", count);
    for (const MemoryPlan::Device& device : plan.devices) {
      table += fmt::format("  {:>12.2f} MiB", static_cast<double>(device.bytes()) / kMiB);
    }
    table += "\n";
  }
  return table;
}

struct InitScope::Held {
  std::vector<op::Recorder*> tapes;
  graph::Trace::Suspension suspension;
  op::InterpreterScope interpreter{op::eager_interpreter()};
  runtime::RandomPurposeScope draws{runtime::RandomPurpose::initial_values};
};

InitScope::InitScope() : held_(std::make_unique<Held>()) { held_->tapes.swap(op::recorders()); }
InitScope::~InitScope() { held_->tapes.swap(op::recorders()); }

}  // namespace tandem
