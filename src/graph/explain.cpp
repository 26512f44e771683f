// A program as text for people: what Function::explain() prints.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "graph/control_kernels.h"
#include "graph/program.h"

namespace tandem::graph {
namespace {

/// "%7 = fused(%1, %2; expression=relu(add(in0, in1)))".
std::string call_text(const Graph& graph, const Node& node, int64_t rows) {
  std::string text;
  for (ValueId output : node.outputs) {
    text += fmt::format("{}%{} {}", text.empty() ? "" : ", ", index_of(output),
                        graph.at(output).type.resolved(rows).str());
  }
  text += fmt::format("{}{}(", text.empty() ? "" : " = ", node.op().name);
  const size_t start = text.size();
  for (const auto* operands : {&node.inputs, &node.ranges}) {
    for (ValueId operand : *operands) {
      const ValueId number = graph.storage_of(operand);
      const Value& storage = graph.at(number);
      if (text.size() > start) text += ", ";
      text += storage.source == Value::Source::range
                  ? fmt::format("variable %{} {}", index_of(number), storage.range.name())
                  : fmt::format("%{}", index_of(operand));
    }
  }
  const std::string attrs = node.signature.attrs.resolved(rows).str();
  return text + (attrs.empty() ? ")" : fmt::format("; {})", attrs));
}

std::string split_text(const Instruction& instruction, int64_t rows) {
  const op::Split split = instruction.node.op().split(instruction.node.signature);
  const int64_t extent = split.extent < 0 ? -split.extent * rows : split.extent;
  if (!instruction.node.regions.empty()) return "all threads";
  if (extent <= 1 || instruction.alone) return "one thread";
  return fmt::format("{} {}{}", extent, split.unit == op::Split::Unit::row ? "rows" : "chunks",
                     instruction.whole_team ? " over all replicas" : "");
}

std::string place_text(const Program& program, const Plan& plan, const Node& node) {
  std::string text;
  for (ValueId output : node.outputs) {
    const int buffer = program.memory().buffer_of[output];
    text += buffer < 0
                ? std::string(", a result")
                : fmt::format(
                      ", at {}",
                      scaled(static_cast<double>(plan.offsets[static_cast<size_t>(buffer)]), "B"));
  }
  return text;
}

void add_region(const Graph& graph, int64_t rows, const std::string& indent, std::string& text) {
  for (const Node& node : graph.nodes) {
    text += fmt::format("{}{}\n", indent, call_text(graph, node, rows));
    for (const auto& region : node.regions) add_region(region->graph, rows, indent + "  ", text);
  }
}

}  // namespace

std::string scaled(double amount, const char* unit) {
  constexpr std::array kPrefixes = {"", "K", "M", "G", "T"};
  size_t prefix = 0;
  for (; amount >= 999.5 && prefix + 1 < kPrefixes.size(); ++prefix) amount /= 1000;
  return fmt::format("{:.{}f} {}{}", amount, prefix == 0 || amount >= 99.5 ? 0 : 1,
                     kPrefixes[prefix], unit);
}

std::string explain(const Program& program, const Plan& plan) {
  const Graph& graph = program.graph();
  std::string text = fmt::format("for {} rows, {} instructions, arena {}\n", plan.rows,
                                 program.instructions().size(),
                                 scaled(static_cast<double>(plan.arena_bytes), "B"));
  for (size_t i = 0; i < program.instructions().size(); ++i) {
    const Instruction& instruction = program.instructions()[i];
    if (instruction.barrier != BarrierScope::none) {
      text += instruction.barrier == BarrierScope::team ? "     -- barrier of all replicas\n"
                                                        : "     -- barrier\n";
    }
    const op::Cost& cost = plan.costs[i];
    text += fmt::format("{:4} {}\n       {}, {}, {}, {}{}\n", i,
                        call_text(graph, instruction.node, plan.rows),
                        split_text(instruction, plan.rows), plan.executables[i]->provider(),
                        scaled(cost.flops, "FLOP"), scaled(cost.bytes, "B"),
                        place_text(program, plan, instruction.node));
    const char* names[] = {"condition", "body", "an iteration backward"};
    if (instruction.node.op().name == "cond") names[0] = "then", names[1] = "otherwise";
    for (size_t r = 0; r < instruction.node.regions.size(); ++r) {
      text += fmt::format("       {}:\n", names[r]);
      add_region(instruction.node.regions[r]->graph, plan.rows, "         ", text);
    }
  }
  return text;
}

}  // namespace tandem::graph
