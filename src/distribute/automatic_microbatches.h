/// Micro-batches as many as memory asks for: before a function runs on a batch for the first time,
/// its memory plan is held against the limits of the devices, and where these would be exceeded
/// batches are cut into more micro-batches from then on. Processes choose together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "function/function_body.h"

namespace tandem::distribute {

class AutomaticMicrobatches {
 public:
  /// A step on a batch, compiled for the micro-batches that there are.
  using Compile = std::function<graph::ConcreteFunctionPtr()>;
  /// Sets how many micro-batches there are, at least `count`, and returns it.
  using Choose = std::function<int(int count)>;
  /// The least of what all processes say; all ask at the same time.
  using LeastOfAll = std::function<int64_t(int64_t own)>;

  struct Step {
    std::string strategy;  ///< Its name, for the log.
    graph::FunctionBody& function;
    int64_t rows = 0;  ///< The batch's.
    size_t batch_bytes = 0;
    Compile compile;
    Choose choose;
    LeastOfAll least_of_all;
  };

  /// Chooses the least number of micro-batches, `now` or more, with which the step has room. Throws
  /// ResourceExhausted where one of a single row has none.
  void settle(const Step& step, int now);

 private:
  /// A program whose memory is known to suffice up to so many rows in each micro-batch.
  struct Settled {
    std::weak_ptr<const graph::ConcreteFunction> concrete;
    int64_t rows;
  };
  bool is_settled(const graph::ConcreteFunctionPtr& concrete, int64_t rows) const;
  void note(const graph::ConcreteFunctionPtr& concrete, int64_t rows);
  int fitting_count(const Step& step, int least) const;

  std::vector<Settled> settled_;
};

}  // namespace tandem::distribute
