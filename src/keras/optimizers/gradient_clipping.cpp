#include "keras/optimizers/gradient_clipping.h"

#include <fmt/format.h>

#include <map>

#include "collective/collective.h"
#include "tandem/error.h"
#include "tandem/ops.h"

namespace tandem::keras::optimizers {
namespace {

using Parts = std::vector<int>;

int parts_of(const Parts& parts, size_t gradient) { return parts.empty() ? 1 : parts[gradient]; }

/// g * limit / max(|g|, limit)
Tensor clipped_by_norm(const Tensor& g, double limit, int parts) {
  const Tensor norm = sqrt(collective::sum_over_parts(reduce_sum(square(g)), parts));
  return g * (scalar_like(limit, g) / maximum(norm, scalar_like(limit, g)));
}

/// The squares are summed in float64, whatever the gradients' dtypes; those of parts meet once.
Tensors clipped_by_global_norm(const Tensors& gradients, double limit, const Parts& parts) {
  std::map<int, Tensor> sums;  // By the number of parts.
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor own = cast(reduce_sum(square(gradients[i])), DType::float64);
    Tensor& sum = sums[parts_of(parts, i)];
    sum = sum.defined() ? sum + own : own;
  }
  Tensor squares;
  for (const auto& [of, sum] : sums) {
    const Tensor whole = collective::sum_over_parts(sum, of);
    squares = squares.defined() ? squares + whole : whole;
  }
  const Tensor norm = sqrt(squares);
  // The difference is 0, or NaN for an infinite norm: then all gradients are NaN, as in Keras.
  const Tensor scale = Tensor(limit) / maximum(norm, Tensor(limit)) + (norm - norm);
  Tensors results;
  for (const Tensor& g : gradients) results.push_back(g * cast(scale, g.dtype()));
  return results;
}

}  // namespace

void check(const Clipping& clipping, const char* optimizer) {
  const std::pair<const char*, std::optional<double>> limits[] = {
      {"clipnorm", clipping.norm},
      {"clipvalue", clipping.value},
      {"global_clipnorm", clipping.global_norm}};
  std::string given;
  for (const auto& [name, limit] : limits) {
    if (!limit) continue;
    if (!(*limit > 0)) {
      throw InvalidArgument(fmt::format("{}: {} is {}, must be > 0", optimizer, name, *limit));
    }
    if (!given.empty()) {
      throw InvalidArgument(
          fmt::format("{}: {} and {} are given; only one of clipnorm, clipvalue "
                      "and global_clipnorm can be",
                      optimizer, given, name));
    }
    given = name;
  }
}

Tensors clipped(const Tensors& gradients, const Clipping& clipping, const Parts& parts) {
  if (clipping.global_norm) return clipped_by_global_norm(gradients, *clipping.global_norm, parts);
  if (!clipping.norm && !clipping.value) return gradients;
  Tensors results;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& g = gradients[i];
    results.push_back(clipping.norm ? clipped_by_norm(g, *clipping.norm, parts_of(parts, i))
                                    : clip(g, -*clipping.value, *clipping.value));
  }
  return results;
}

}  // namespace tandem::keras::optimizers
