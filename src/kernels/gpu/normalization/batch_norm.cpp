// Normalises channels by statistics that were computed before, and does the same for the gradient.
// The statistics are in channel_statistics.cpp. Results may lie where the first input lies.
#include "kernels/channel_rows.h"
#include "kernels/gpu/gpu_kernel.h"

namespace tandem::kernels::gpu {
namespace {

/// EACH_ELEMENT(value): out[HERE] = value for each element, of channel c. A CPU's item goes along
/// the channels of its rows, a GPU's takes elements in turn.
constexpr std::string_view kEachElement = R"(
#ifdef SERIAL
#define HERE (row * channels + c)
#define EACH_ELEMENT(value) \
  EACH(row, rows) { LANEWISE(T, v, value, c, l, channels, out[HERE] = v;) }
#else
#define HERE i
#define EACH_ELEMENT(value) \
  EACH(i, rows * channels) { \
    const i64 c = i < 4294967296 ? (u32)i % (u32)channels : i % channels; \
    out[HERE] = (value); \
  }
#endif
)";

/// (x - mean) inverse gamma + beta
constexpr const char* kNormalize = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), MEMORY(5), i64 rows,
            i64 channels) {
  const GLOBAL T* x = AT(const T, 0);
  const GLOBAL T* mean = AT(const T, 1);
  const GLOBAL T* inverse = AT(const T, 2);
  const GLOBAL T* gamma = AT(const T, 3);
  const GLOBAL T* beta = AT(const T, 4);
  GLOBAL T* out = AT(T, 5);
  EACH_ELEMENT((x[HERE] - mean[c]) * (inverse[c] * gamma[c]) + beta[c])
}
)";

/// (g - a - (x - mean) b) scale, with a = sum / n, b = product inverse^2 / n, scale = inverse
/// gamma.
constexpr const char* kGrad = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), MEMORY(5), MEMORY(6), MEMORY(7),
            i64 rows, i64 channels) {
  const GLOBAL T* g = AT(const T, 0);
  const GLOBAL T* x = AT(const T, 1);
  const GLOBAL T* mean = AT(const T, 2);
  const GLOBAL T* inverse = AT(const T, 3);
  const GLOBAL T* gamma = AT(const T, 4);
  const GLOBAL T* sum = AT(const T, 5);
  const GLOBAL T* product = AT(const T, 6);
  GLOBAL T* out = AT(T, 7);
  const T factor = 1 / (T)rows;
  EACH_ELEMENT((g[HERE] - sum[c] * factor -
                (x[HERE] - mean[c]) * (product[c] * factor * inverse[c] * inverse[c])) *
               (inverse[c] * gamma[c]))
}
)";

constexpr const char* kInverse = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 count, double epsilon) {
  const GLOBAL T* x = AT(const T, 0);
  GLOBAL T* out = AT(T, 1);
  EACH(i, count) out[i] = 1 / sqrt(x[i] + (T)epsilon);
}
)";

ExecutablePtr prepare_elements(const char* body, const Signature& s, const Device& device) {
  const Kernel kernel(device, {.name = s.op->name,
                               .words = types_of(s.inputs[0].dtype),
                               .functions = {kEachElement},
                               .body = body});
  return op::executable([kernel, inputs = static_cast<int>(s.inputs.size()),
                         at = ChannelRows(s.inputs[0].shape)](const Launch& launch) {
    const int64_t count = at.rows * at.channels;
    if (count == 0) return;
    Call call(launch, kernel);
    for (int i = 0; i < inputs; ++i) call.in(i);
    call.out(0).whole(at.rows).whole(at.channels);
    if (kernel.is_serial()) return call.rows(at.rows, at.channels);
    call.each(count);
  });
}

ExecutablePtr prepare_inverse(const Signature& s, const Device& device) {
  const Kernel kernel(device,
                      {.name = s.op->name, .words = types_of(s.inputs[0].dtype), .body = kInverse});
  return op::executable([kernel, count = count_of(s.inputs[0]),
                         epsilon = s.attrs.get<double>("epsilon")](const Launch& launch) {
    if (count > 0) Call(launch, kernel).in(0).out(0).whole(count).real(epsilon).each(count);
  });
}

}  // namespace

void register_batch_norm(op::BackendKernels& kernels) {
  const auto elements = [](const char* body) {
    return [body](const Signature& s, const Device& device) {
      return prepare_elements(body, s, device);
    };
  };
  const std::vector<DType> floating = {DType::float32, DType::float64};
  add_kernel(kernels, "inverse_deviation", floating, prepare_inverse);
  add_kernel(kernels, "batch_normalize", floating, elements(kNormalize));
  add_kernel(kernels, "batch_normalize_grad", floating, elements(kGrad));
}

}  // namespace tandem::kernels::gpu
