// The joins of variables that replicas keep in parts begin where those before have ended, so that
// they go on while the layer of those computes: between processes as exchanges, between devices
// with memories of their own on their queues for exchanges. Joins with no other call between them,
// as of a layer's kernel and bias, begin together. In the backward pass, whose joins are calls of
// their own (join_again.cpp), it goes the same way, from the last layer to the first. So the
// variables of two layers live as wholes at once, and no more.
//
//   before   %1 = join_parts(w)   %2 = join_parts(b)   %3 = fused_matmul(x, %1, %2)
//            %4 = join_parts(v)   %5 = matmul(%3, %4)
//   after    %6 = join_start(w)   %7 = join_start(b)   %1 = join_finish(%6)   %2 = join_finish(%7)
//            %8 = join_start(v)   %3 = fused_matmul(x, %1, %2)
//            %4 = join_finish(%8)   %5 = matmul(%3, %4)
#include <algorithm>
#include <atomic>
#include <map>

#include "graph/passes/passes.h"
#include "op/registry.h"

namespace tandem::graph {
namespace {

std::atomic<bool> ahead{true};

class JoinStarter {
 public:
  JoinStarter(Graph& graph, const JoinOps& ops)
      : graph_(graph),
        start_(op::find_op(ops.start)),
        finish_(op::find_op(ops.finish)),
        is_hosted_(ops.is_hosted) {}

  void run() {
    for (Node& node : graph_.nodes) {
      const bool is_read = node.op().name == "read_variable";
      if (is_read) reads_[node.outputs[0]] = node;
      if (is_join(node)) {
        if (!follows_join_) place_ = earliest_;
        start(node);
        node.signature.op = &finish_;
      }
      if (is_join(node) || node.op().writes_ranges) earliest_ = kept_.size() + 1;
      follows_join_ = is_join(node) || (is_read && follows_join_);
      kept_.push_back(std::move(node));
    }
    graph_.nodes = std::move(kept_);
  }

 private:
  bool is_join(const Node& node) const {
    return node.op().name == "join_parts" || &node.op() == &finish_;
  }

  /// Puts the start of a join, with a read of the part of its own, behind those that begin with it.
  /// What is joined otherwise than from a variable begins where it ends.
  void start(Node& join) {
    const auto read = reads_.find(join.inputs[0]);
    const bool is_ahead = ahead && read != reads_.end();
    size_t here = kept_.size();
    size_t& place = is_ahead ? place_ : here;
    const auto insert = [&](Node node) {
      kept_.insert(kept_.begin() + static_cast<ptrdiff_t>(place++), std::move(node));
    };
    Node begin = join;
    begin.signature.op = &start_;
    begin.signature.attrs =
        join.signature.attrs.with("number", next_).with("is_hosted", is_hosted_);
    begin.signature.outputs = begin.signature.op->infer(begin.signature);
    begin.outputs = {graph_.add_value({.type = begin.signature.outputs[0]})};
    join.signature.attrs = begin.signature.attrs;
    ++next_;
    if (is_ahead) {
      Node own = read->second;
      own.outputs = {graph_.add_value({.type = own.signature.outputs[0]})};
      begin.inputs = own.outputs;
      insert(std::move(own));
    }
    join.inputs = begin.outputs;
    join.signature.inputs = begin.signature.outputs;
    insert(std::move(begin));
  }

  Graph& graph_;
  const op::OpDef& start_;
  const op::OpDef& finish_;
  const bool is_hosted_;
  std::map<ValueId, Node> reads_;  // By what is read.
  std::vector<Node> kept_;
  size_t earliest_ = 0;        // Where the joins behind those at hand may begin,
  size_t place_ = 0;           // and where the next of those at hand does.
  bool follows_join_ = false;  // What was kept last is a join, or a read behind one.
  int64_t next_ = 0;           // A join's number.
};

}  // namespace

void set_joins_ahead(bool on) { ahead = on; }

void start_joins(Graph& graph, const JoinOps& ops) {
  const auto is_join = [](const Node& node) { return node.op().name == "join_parts"; };
  if (std::ranges::any_of(graph.nodes, is_join)) JoinStarter(graph, ops).run();
}

}  // namespace tandem::graph
