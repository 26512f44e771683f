/// Kernels that compute each element of their outputs from the elements of their inputs at the same
/// place. Inputs may be repeated along axes (broadcasting); outputs may lie where inputs lie.
///
///   ElementKernel kernel(device, {.name = "share", .words = types_of(dtype),
///                                 .inputs = {dtype}, .outputs = {dtype},
///                                 .results = {"x0 > 0 ? 1 / x0 : (C)0"}},
///                        Loops(signature));
///   kernel.run(launch);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {

/// What a kernel does with each element. Its statements find the inputs' elements as x0, x1, .., in
/// the types that they are stored in, and the parameters as doubles d0, d1, .. and, in the type C,
/// as q0, q1, ..
struct ElementText {
  std::string name;
  Words words{};
  std::vector<DType> inputs{};
  std::vector<DType> outputs{};
  std::vector<std::string_view> functions{};
  std::string before{};                ///< Statements that come once, before all elements.
  std::string statements{};            ///< Those that come for each element.
  std::vector<std::string> results{};  ///< Expressions: the outputs' elements.
  std::vector<double> parameters{};    ///< Arguments, whose values are not part of the text.
  bool uses_step = false;              ///< `before` finds the step's scalars as `step`: see step.h.
};

/// The axes of a result, and along which of them each input goes on. Axes along which the inputs
/// behave alike are one.
struct Loops {
  Loops() = default;
  Loops(const op::TensorTypes& inputs, const Shape& result);
  explicit Loops(const Signature& s) : Loops(s.inputs, s.outputs[0].shape) {}

  int64_t count() const;
  size_t rank() const { return sizes.size(); }
  bool goes_on(size_t input, size_t axis) const { return moves[input][axis]; }
  bool goes_on_everywhere(size_t input) const;
  bool stays_everywhere(size_t input) const;
  /// Every input is as large as the result or one element.
  bool is_flat() const;

  std::vector<int64_t> sizes;            ///< Outermost first; one axis at least.
  std::vector<std::vector<bool>> moves;  ///< By input and axis.
};

class ElementKernel {
 public:
  ElementKernel(const Device& device, const ElementText& text, const Loops& loops);

  /// The op's inputs and outputs, as many as the text has of each.
  void run(const Launch& launch) const;

  /// Inputs and outputs at these addresses, and loops of these sizes, which otherwise are those
  /// that the kernel was made for.
  void run(const Launch& launch, std::span<const void* const> operands,
           std::span<const int64_t> sizes) const;

 private:
  void issue(Call& call, std::span<const int64_t> sizes) const;

  const Kernel kernel_;
  const size_t inputs_;
  const size_t outputs_;
  const std::vector<int64_t> sizes_;
  const std::vector<double> parameters_;
  const bool uses_step_;
};

/// An executable for the op's inputs and outputs.
ExecutablePtr element_executable(const Device& device, const ElementText& text, const Loops& loops);

}  // namespace tandem::kernels::gpu
