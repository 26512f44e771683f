/// Copies elements that are evenly spaced along each axis, within the input and within the output.
#pragma once

#include "kernels/gpu/gpu_kernel.h"
#include "kernels/strided.h"

namespace tandem::kernels::gpu {

class StridedCopy {
 public:
  /// `strided.base` is where the first element is in the input, `to` where it goes in the output.
  StridedCopy(const Device& device, DType dtype, const Strided& strided, int64_t to = 0);

  /// From an input to the first output.
  void run(const Launch& launch, int input = 0) const;

 private:
  /// The loops as a kernel has them: outer ones, of which a text takes so many, and two that it
  /// knows by name.
  struct Plan {
    bool in_tiles;
    Nest<2> outer;
    Axis<2> inner;  ///< In tiles: neighbours in the output.
    Axis<2> unit;   ///< In tiles: neighbours in the input.
  };

  static Plan plan_of(Nest<2> loops);
  static Kernel kernel_of(const Device& device, DType dtype, const Plan& plan);
  int64_t tiles() const;

  const Plan plan_;
  const Kernel kernel_;
  const int64_t from_;
  const int64_t to_;
};

}  // namespace tandem::kernels::gpu
