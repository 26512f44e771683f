// The cross entropies of softmax and sigmoid. One kernel computes a row's loss and its gradient, of
// which the op's own gradient is then a product.
#include <fmt/format.h>

#include <memory>

#include "kernels/gpu/gpu_kernel.h"
#include "kernels/gpu/loss/softmax_text.h"
#include "tandem/error.h"

namespace tandem::kernels::gpu {
namespace {

/// With x = logits - max(logits), which keeps exp from overflow:
///   loss = sum of labels (log(sum of exp(x)) - x)
///   backprop = (sum of labels) exp(x) / (sum of exp(x)) - labels
/// where the second sum of labels is 1 if they are taken to sum to it. All terms have one sign, so
/// nothing cancels where log(sum) and x are added up apart.
constexpr const char* kSoftmax = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 rows, i64 n) {
  SCRATCH(T)
  ROWS(r, rows) {
    const GLOBAL T* x = AT(const T, 0) + r * n;
    const GLOBAL T* labels = AT(const T, 1) + r * n;
    GLOBAL T* backprop = AT(T, 3) + r * n;
    MAXIMUM_OF(x, n, most)
    LANES_OF(T, sum, 0)
    LANEWISE(T, e, exp(x[c] - most), c, l, n, backprop[c] = e; sum[l] += e;)
    JOIN(T, sum, SUM_OF)
    LANES_OF(T, label_sum, 0)
    LANEWISE(T, v, labels[c], c, l, n, label_sum[l] += v;)
    JOIN(T, label_sum, SUM_OF)
    LANES_OF(T, picked, 0)
    LANEWISE(T, v, labels[c] * (x[c] - most), c, l, n, picked[l] += v;)
    JOIN(T, picked, SUM_OF)
    const T factor = (SUM_TO_ONE ? 1 : label_sum[0]) / sum[0];
    LANEWISE(T, v, backprop[c] * factor - labels[c], c, l, n, backprop[c] = v;)
    ONCE AT(T, 2)[r] = n == 0 ? 0 : log(sum[0]) * label_sum[0] - picked[0];
  }
}
)";

/// loss = log(sum of exp(logits)) - logits[label], backprop = softmax(logits), less 1 at the label.
constexpr const char* kSparse = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 rows, i64 n,
            MEMORY(4), i64 report, i64 ticket) {
  SCRATCH(T)
  ROWS(r, rows) {
    const GLOBAL T* x = AT(const T, 0) + r * n;
    GLOBAL T* backprop = AT(T, 3) + r * n;
    const i64 label = AT(const LABEL, 1)[r];
    const int is_good = label >= 0 && label < n;
    if (!is_good) { ONCE report_fault(AT(u32, 4), report, ticket, r, label); }
    MAXIMUM_OF(x, n, most)
    LANES_OF(T, sum, 0)
    LANEWISE(T, e, exp(x[c] - most), c, l, n, backprop[c] = e; sum[l] += e;)
    JOIN(T, sum, SUM_OF)
    const T factor = 1 / sum[0];
    LANEWISE(T, v, backprop[c] * factor, c, l, n, backprop[c] = c == label ? v - 1 : v;)
    ONCE AT(T, 2)[r] = is_good ? (most - x[label]) + log(sum[0]) : 0;
  }
}
)";

/// With e = exp(-|x|), which cannot overflow:
///   loss = max(x, 0) - x label + log(1 + e)
///   backprop = (x < 0 ? e : 1) / (1 + e) - label
constexpr const char* kSigmoid = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 count) {
  const GLOBAL T* logits = AT(const T, 0);
  const GLOBAL T* labels = AT(const T, 1);
  GLOBAL T* loss = AT(T, 2);
  GLOBAL T* backprop = AT(T, 3);
  EACH(i, count) {
    const T x = logits[i];
    const T label = labels[i];
    const T e = exp(-fabs(x));
    loss[i] = (x < 0 ? 0 : x) - x * label + log1p(e);
    backprop[i] = (x < 0 ? e : 1) / (1 + e) - label;
  }
}
)";

ExecutablePtr prepare_softmax(const Signature& s, const Device& device) {
  Words words = types_of(s.inputs[0].dtype);
  words.emplace_back("SUM_TO_ONE", s.attrs.get<bool>("labels_sum_to_one") ? "1" : "0");
  const Kernel kernel(
      device, {.name = s.op->name, .words = words, .functions = {kSoftmaxWords}, .body = kSoftmax});
  return op::executable([kernel, shape = s.inputs[0].shape](const Launch& launch) {
    if (shape[0] == 0) return;
    Call call(launch, kernel);
    call.in(0).in(1).out(0).out(1).whole(shape[0]).whole(shape[1]).rows(shape[0], shape[1]);
  });
}

ExecutablePtr prepare_sparse(const Signature& s, const Device& device) {
  const Shape shape = s.inputs[0].shape;
  Words words = types_of(s.inputs[0].dtype);
  words.emplace_back("LABEL", type_name(s.inputs[1].dtype));
  const Kernel kernel(
      device, {.name = s.op->name, .words = words, .functions = {kSoftmaxWords}, .body = kSparse});
  const auto fault =
      std::make_shared<const FaultNumber>([classes = shape[1]](int64_t row, int64_t label) {
        throw InvalidArgument(fmt::format(
            "sparse_softmax_cross_entropy_with_logits: label {} of row {} is not within the {} "
            "classes",
            label, row, classes));
      });
  return op::executable([=](const Launch& launch) {
    if (shape[0] == 0) return;
    Call call(launch, kernel);
    call.in(0).in(1).out(0).out(1).whole(shape[0]).whole(shape[1]).fault(*fault);
    call.rows(shape[0], shape[1]);
  });
}

ExecutablePtr prepare_sigmoid(const Signature& s, const Device& device) {
  const Kernel kernel(device,
                      {.name = s.op->name, .words = types_of(s.inputs[0].dtype), .body = kSigmoid});
  return op::executable([kernel, count = count_of(s.inputs[0])](const Launch& launch) {
    if (count == 0) return;
    Call(launch, kernel).in(0).in(1).out(0).out(1).whole(count).each(count);
  });
}

}  // namespace

void register_loss(op::BackendKernels& kernels) {
  const std::vector<DType> floating = {DType::float32, DType::float64};
  add_kernel(kernels, "softmax_cross_entropy", floating, prepare_softmax);
  add_kernel(kernels, "sparse_softmax_cross_entropy", floating, prepare_sparse);
  add_kernel(kernels, "sigmoid_cross_entropy", floating, prepare_sigmoid);
}

}  // namespace tandem::kernels::gpu
