/// Random numbers. A number is a function of the seeds, of which call it is, and of its position
/// within the global batch: threads, shards and devices do not change it (processors with other
/// vector instructions may round it differently in the last bits).
///
/// Seeds combine as in TensorFlow. There is a global one, random::set_seed, and one for each op:
///   neither      every process draws other numbers
///   only global  the same numbers in every process that makes the same calls
///   only the op  the same, with a default in place of the global seed
///   both         the same, and both matter
/// Two calls of an op with the same seeds draw different numbers; setting the global seed again
/// starts the sequence anew, for eager calls and for functions that were traced before. Calls from
/// several threads at once get their places in the sequence in any order.
///
/// A step draws the same numbers op by op and in a function, up to the first cond or while_loop
/// with random numbers inside. What is drawn under init_scope(), as layers draw their first
/// weights, has a sequence of its own and does not depend on the others.
#pragma once

#include <cstdint>
#include <optional>

#include "tandem/tensor.h"

namespace tandem {

namespace random {

/// Sets the global seed and starts its sequence of numbers.
TANDEM_API void set_seed(uint64_t seed);

}  // namespace random

struct RandomOptions {
  DType dtype = DType::float32;  ///< Or float64.
  std::optional<uint64_t> seed{};
};

TANDEM_API Tensor random_normal(const Shape& shape, double mean = 0, double stddev = 1,
                                const RandomOptions& options = {});

/// Normal numbers, those further than two standard deviations from the mean drawn again.
TANDEM_API Tensor random_truncated_normal(const Shape& shape, double mean = 0, double stddev = 1,
                                          const RandomOptions& options = {});

/// Uniform numbers in [minval, maxval). The dtype may also be int32 or int64; then both bounds are
/// whole numbers, as for random_integers.
TANDEM_API Tensor random_uniform(const Shape& shape, double minval = 0, double maxval = 1,
                                 const RandomOptions& options = {});

struct RandomIntegersOptions {
  DType dtype = DType::int64;  ///< Or int32.
  std::optional<uint64_t> seed{};
};

/// Whole numbers in [minval, maxval). Throws InvalidArgument when there are none, or when the dtype
/// does not hold them.
TANDEM_API Tensor random_integers(const Shape& shape, int64_t minval, int64_t maxval,
                                  const RandomIntegersOptions& options = {});

struct RandomBernoulliOptions {
  DType dtype = DType::boolean;  ///< Any: true becomes 1.
  std::optional<uint64_t> seed{};
};

/// True with probability p, which is within [0, 1].
TANDEM_API Tensor random_bernoulli(const Shape& shape, double p,
                                   const RandomBernoulliOptions& options = {});

struct RandomOrderOptions {
  std::optional<uint64_t> seed{};
};

/// The numbers 0 to n - 1 in random order, int64[n].
TANDEM_API Tensor random_permutation(int64_t n, const RandomOrderOptions& options = {});

/// The rows of `x` in random order. Within strategy.run each replica's rows stay with it.
/// Differentiable.
TANDEM_API Tensor random_shuffle(const Tensor& x, const RandomOrderOptions& options = {});

struct DropoutOptions {
  std::optional<uint64_t> seed{};
  /// Two numbers, int64[2], that alone decide which elements stay, whichever call it is: of float32
  /// those that TensorFlow's stateless_dropout keeps. Undefined: the other seeds decide.
  Tensor stateless_seed{};
};

/// Each element of `x`, float32 or float64, is zero with probability `rate` and else divided by
/// 1 - rate. Throws InvalidArgument when the rate is not within [0, 1), and for another kind of
/// stateless_seed. The gradient passes where the element did.
TANDEM_API Tensor dropout(const Tensor& x, double rate, const DropoutOptions& options = {});

}  // namespace tandem
