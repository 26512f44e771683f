#include "tandem/keras/activations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras {
namespace {

struct KnownActivation {
  const char* name;
  Tensor (*apply)(const Tensor&);
};

/// Klambauer and others, "Self-normalizing neural networks": the fixed point is mean 0, variance 1.
Tensor selu(const Tensor& x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return elu(x, kAlpha) * kScale;
}

Tensor hard_sigmoid(const Tensor& x) { return relu6(x + 3.0) * (1.0 / 6); }
Tensor hard_silu(const Tensor& x) { return x * hard_sigmoid(x); }

constexpr KnownActivation kKnown[] = {
    {"linear", [](const Tensor& x) { return x; }},
    {"relu", relu},
    {"relu6", relu6},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
    {"elu", [](const Tensor& x) { return elu(x); }},
    {"selu", selu},
    {"celu", [](const Tensor& x) { return elu(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"sigmoid", sigmoid},
    {"log_sigmoid", [](const Tensor& x) { return neg(softplus(neg(x))); }},
    {"hard_sigmoid", hard_sigmoid},
    {"tanh", tanh},
    {"hard_tanh", [](const Tensor& x) { return clip(x, -1, 1); }},
    {"softmax", [](const Tensor& x) { return softmax(x); }},
    {"log_softmax", [](const Tensor& x) { return log_softmax(x); }},
    {"softplus", softplus},
    {"softsign", [](const Tensor& x) { return x / (abs(x) + 1.0); }},
    {"silu", silu},
    {"swish", silu},
    {"hard_silu", hard_silu},
    {"hard_swish", hard_silu},
    {"mish", [](const Tensor& x) { return x * tanh(softplus(x)); }},
    {"exponential", exp},
};

Activation::Apply apply_of(const std::string& name) {
  std::vector<const char*> names;
  for (const KnownActivation& one : kKnown) {
    if (name == one.name) return one.apply;
    names.push_back(one.name);
  }
  throw InvalidArgument(
      fmt::format("activation '{}' is not known; there are {}", name, fmt::join(names, ", ")));
}

}  // namespace

Activation::Activation(const std::string& name) : name_(name), apply_(apply_of(name)) {}
Activation::Activation(const char* name) : Activation(std::string(name)) {}

}  // namespace tandem::keras
