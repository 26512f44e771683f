/// First values of weights, by name or object: `Dense(10, {.kernel_initializer = "he_normal"})`.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tandem/tensor.h"

namespace tandem::keras {

/// A function from shape and dtype to a tensor, with a name. The handle is cheap. Kernels have the
/// shape [.., in, out]; sizes before those count into both, as in Keras.
class TANDEM_API Initializer {
 public:
  using Make = std::function<Tensor(const Shape& shape, DType dtype)>;

  /// `name` is Keras's: "zeros", "ones", "glorot_uniform", "glorot_normal", "he_uniform",
  /// "he_normal", "lecun_uniform", "lecun_normal", "random_uniform", "random_normal",
  /// "truncated_normal", and "uniform" and "normal" for the random ones. Throws InvalidArgument for
  /// another, listing these.
  Initializer(const std::string& name);  // NOLINT(google-explicit-constructor)
  Initializer(const char* name);         // NOLINT(google-explicit-constructor)

  /// One's own.
  Initializer(std::string name, Make make) : name_(std::move(name)), make_(std::move(make)) {}

  const std::string& name() const { return name_; }
  Tensor operator()(const Shape& shape, DType dtype = DType::float32) const {
    return make_(shape, dtype);
  }

 private:
  std::string name_;
  Make make_;
};

namespace initializers {

TANDEM_API Initializer constant(double value);
TANDEM_API Initializer random_uniform(double minval = -0.05, double maxval = 0.05,
                                      std::optional<uint64_t> seed = {});
TANDEM_API Initializer random_normal(double mean = 0, double stddev = 0.05,
                                     std::optional<uint64_t> seed = {});

/// Numbers further than two standard deviations from the mean are drawn again.
TANDEM_API Initializer truncated_normal(double mean = 0, double stddev = 0.05,
                                        std::optional<uint64_t> seed = {});

/// Numbers of mean zero and variance scale / n, where n is the inputs ("fan_in"), the outputs
/// ("fan_out") or their mean ("fan_avg") of a weight, drawn "uniform", "truncated_normal" (which
/// "normal" means too, as in Keras) or "untruncated_normal". Throws InvalidArgument for another
/// mode or distribution, and for a scale that is not positive.
TANDEM_API Initializer variance_scaling(double scale, const std::string& mode,
                                        const std::string& distribution,
                                        std::optional<uint64_t> seed = {});

}  // namespace initializers
}  // namespace tandem::keras
