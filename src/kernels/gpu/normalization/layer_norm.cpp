// Layer normalisation and its gradients. Each line is normalised by its own mean and deviation.
#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/normalization/column_sums.h"

namespace tandem::kernels::gpu {
namespace {

/// (x - mean) inverse gamma + beta. Mean and inverse are kept for the gradients.
constexpr const char* kForward = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), MEMORY(5), i64 lines, i64 n,
            double epsilon) {
  SCRATCH(T)
  const GLOBAL T* gamma = AT(const T, 1);
  const GLOBAL T* beta = AT(const T, 2);
  ROWS(r, lines) {
    const GLOBAL T* x = AT(const T, 0) + r * n;
    GLOBAL T* y = AT(T, 3) + r * n;
    LANES_OF(T, sum, 0)
    LANEWISE(T, v, x[c], c, l, n, sum[l] += v;)
    JOIN(T, sum, SUM_OF)
    const T mean = n == 0 ? 0 : sum[0] / (T)n;
    LANES_OF(T, squares, 0)
    LANEWISE(T, v, x[c] - mean, c, l, n, squares[l] += v * v;)
    JOIN(T, squares, SUM_OF)
    const T inverse = n == 0 ? 0 : 1 / sqrt(squares[0] / (T)n + (T)epsilon);
    LANEWISE(T, v, (x[c] - mean) * inverse * gamma[c] + beta[c], c, l, n, y[c] = v;)
    ONCE {
      AT(T, 4)[r] = mean;
      AT(T, 5)[r] = inverse;
    }
  }
}
)";

/// inverse (v - mean of v - n (mean of v n)) with v = g gamma, n = (x - mean) inverse.
constexpr const char* kGrad = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), MEMORY(5), i64 lines, i64 n) {
  SCRATCH(T)
  const GLOBAL T* gamma = AT(const T, 4);
  ROWS(r, lines) {
    const GLOBAL T* g = AT(const T, 0) + r * n;
    const GLOBAL T* x = AT(const T, 1) + r * n;
    const T mean = AT(const T, 2)[r];
    const T inverse = AT(const T, 3)[r];
    GLOBAL T* out = AT(T, 5) + r * n;
    LANES_OF(T, sum, 0)
    LANEWISE(T, v, g[c] * gamma[c], c, l, n, sum[l] += v;)
    JOIN(T, sum, SUM_OF)
    LANES_OF(T, product, 0)
    LANEWISE(T, v, g[c] * gamma[c] * ((x[c] - mean) * inverse), c, l, n, product[l] += v;)
    JOIN(T, product, SUM_OF)
    const T mean_v = sum[0] / (T)n;
    const T mean_vn = product[0] / (T)n;
    LANEWISE(T, v, (g[c] * gamma[c] - mean_v - (x[c] - mean) * inverse * mean_vn) * inverse, c, l, n,
             out[c] = v;)
  }
}
)";

/// A tensor seen as lines of elements.
struct Lines {
  explicit Lines(const Signature& s) {
    const Shape& shape = s.inputs[0].shape;
    const auto axis = static_cast<int>(s.attrs.get<int64_t>("axis"));
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? lines : length) *= shape[i];
  }

  int64_t lines = 1, length = 1;
};

ExecutablePtr prepare_forward(const Signature& s, const Device& device) {
  const Kernel kernel(device,
                      {.name = s.op->name, .words = types_of(s.inputs[0].dtype), .body = kForward});
  return op::executable(
      [kernel, shape = Lines(s), epsilon = s.attrs.get<double>("epsilon")](const Launch& launch) {
        if (shape.lines == 0) return;
        Call call(launch, kernel);
        call.in(0).in(1).in(2).out(0).out(1).out(2);
        call.whole(shape.lines).whole(shape.length).real(epsilon).rows(shape.lines, shape.length);
      });
}

ExecutablePtr prepare_grad(const Signature& s, const Device& device) {
  const Kernel kernel(device,
                      {.name = s.op->name, .words = types_of(s.inputs[0].dtype), .body = kGrad});
  return op::executable([kernel, shape = Lines(s)](const Launch& launch) {
    if (shape.lines * shape.length == 0) return;
    Call call(launch, kernel);
    call.in(0).in(1).in(2).in(3).in(4).out(0);
    call.whole(shape.lines).whole(shape.length).rows(shape.lines, shape.length);
  });
}

/// The sums over lines of g n, for gamma, and of g, for beta.
ExecutablePtr prepare_parameter_grad(const Signature& s, const Device& device) {
  const Lines shape(s);
  return prepare_column_sums({.rows = shape.lines,
                              .columns = shape.length,
                              .term = "g * ((x - a[r]) * b[r])",
                              .g = 0,
                              .x = 1,
                              .a = 2,
                              .b = 3,
                              .sum = 1,
                              .product = 0},
                             s, device);
}

}  // namespace

void register_layer_norm(op::BackendKernels& kernels) {
  const std::vector<DType> floating = {DType::float32, DType::float64};
  add_kernel(kernels, "layer_norm", floating, prepare_forward);
  add_kernel(kernels, "layer_norm_grad", floating, prepare_grad);
  add_kernel(kernels, "layer_norm_parameter_grad", floating, prepare_parameter_grad);
}

}  // namespace tandem::kernels::gpu
