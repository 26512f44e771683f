#include "graph/axis_sums.h"

#include <fmt/format.h>

#include <set>

namespace tandem::graph {
namespace {

ToldAlong* axis_of(const Node& node, AxisSums& sums, int model) {
  static const std::set<std::string> along_model{"sum_over_model", "exchange_over_model",
                                                 "exchange_join_over_model",
                                                 "exchange_sum_to_part_over_model"};
  static const std::set<std::string> of_all{
      "all_reduce",      "reduce_scatter",      "exchange_sum",        "exchange_start",
      "exchange_gather", "exchange_join_start", "exchange_sum_to_part"};
  const std::string& name = node.op().name;
  if (along_model.contains(name)) {
    const bool is_sum = name == "sum_over_model" || name == "exchange_over_model";
    const bool is_of_more =
        model > 0 && is_sum && node.signature.attrs.get<int64_t>("model") > model;
    return is_of_more ? &sums.all : &sums.model;
  }
  if (name == "sum_over_holders" || name == "exchange_over_holders") return &sums.data;
  if (name == "join_parts" || name == "join_start" || name == "sum_to_part") {
    // Parts of an axis meet along the model, those of elements in their order over all replicas.
    return node.signature.attrs.get<Shape>("part").rank() > 1 ? &sums.model : &sums.all;
  }
  return of_all.contains(name) ? &sums.all : nullptr;
}

}  // namespace

std::string ToldAlong::line(const char* who, const char* what) const {
  if (count == 0) return {};
  return fmt::format("{}: {} {} a run, {}\n", who, count, what,
                     scaled(static_cast<double>(bytes), "B"));
}

AxisSums axis_sums(const Program& program, int64_t rows, int model) {
  AxisSums sums;
  for (const Node& node : program.graph().nodes) {
    if (ToldAlong* const along = axis_of(node, sums, model))
      along->add(node.signature.inputs, rows);
  }
  return sums;
}

}  // namespace tandem::graph
