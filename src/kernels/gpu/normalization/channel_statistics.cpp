// Mean and variance of each channel, and the two sums over all rows that the gradient of batch
// normalisation needs.
#include <memory>

#include "kernels/channel_rows.h"
#include "kernels/gpu/columns.h"
#include "kernels/gpu/normalization/column_sums.h"

namespace tandem::kernels::gpu {
namespace {

/// Joins `own` rows to `before` rows: Chan, Golub, LeVeque: Updating formulae and a pairwise
/// algorithm for computing sample variances. `squares` are sums of squared distances to the mean.
constexpr std::string_view kJoinMoments = R"(
#define JOIN_MOMENTS(T, mean, squares, before, own_mean, own_squares, own) { \
  const T weight = (T)(own) / (T)((before) + (own)); \
  const T delta = (own_mean) - (mean); \
  (mean) += delta * weight; \
  (squares) += (own_squares) + delta * delta * (T)(before) * weight; \
}
)";

/// A block of rows stays in the first cache while it is passed over twice.
constexpr const char* kMoments = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), i64 rows, i64 channels, i64 parts, i64 block) {
  const i64 tasks = COLUMN_TASKS(1, channels);
  EACH(t, tasks * parts) {
    const i64 part = t / tasks;
    const i64 first = COLUMN_OF(t % tasks, channels);
    const int n = COLUMNS_FROM(first, channels);
    const i64 all = PART_ROWS(part, parts, rows);
    const GLOBAL T* x = AT(const T, 0) + first;
    T mean[COLUMN_WIDTH];
    T squares[COLUMN_WIDTH];
    T own_mean[COLUMN_WIDTH];
    T own_squares[COLUMN_WIDTH];
    WIDE(l, n) { mean[l] = 0; squares[l] = 0; }
    for (i64 before = 0; before < all; before += block) {
      const i64 own = all - before < block ? all - before : block;
      WIDE(l, n) { own_mean[l] = 0; own_squares[l] = 0; }
      for (i64 k = before; k < before + own; ++k) {
        const GLOBAL T* row = x + PART_ROW(k, part, parts, rows) * channels;
        WIDE(l, n) own_mean[l] += row[l];
      }
      WIDE(l, n) own_mean[l] *= 1 / (T)own;
      for (i64 k = before; k < before + own; ++k) {
        const GLOBAL T* row = x + PART_ROW(k, part, parts, rows) * channels;
        WIDE(l, n) {
          const T distance = row[l] - own_mean[l];
          own_squares[l] += distance * distance;
        }
      }
      WIDE(l, n) JOIN_MOMENTS(T, mean[l], squares[l], before, own_mean[l], own_squares[l], own)
    }
    const T factor = parts == 1 && rows > 0 ? 1 / (T)rows : 1;
    GLOBAL T* means = AT(T, 1) + part * channels + first;
    GLOBAL T* variances = AT(T, 2) + part * channels + first;
    WIDE(l, n) { means[l] = mean[l]; variances[l] = squares[l] * factor; }
  }
}
)";

constexpr const char* kJoin = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 rows, i64 channels, i64 parts) {
  EACH(c, channels) {
    T mean = 0;
    T squares = 0;
    i64 before = 0;
    for (i64 part = 0; part < parts; ++part) {
      const i64 own = PART_ROWS(part, parts, rows);
      JOIN_MOMENTS(T, mean, squares, before, AT(const T, 0)[part * channels + c],
                   AT(const T, 1)[part * channels + c], own)
      before += own;
    }
    AT(T, 2)[c] = mean;
    AT(T, 3)[c] = squares * (1 / (T)rows);
  }
}
)";

class Moments final : public op::Executable {
 public:
  Moments(const ChannelRows& at, const Kernel& kernel, const Kernel& join, size_t size)
      : at_(at),
        kernel_(kernel),
        join_(join),
        columns_{1, at.rows, at.channels},
        parts_(columns_.parts(kernel)),
        bytes_(static_cast<size_t>(parts_ * at.channels) * size) {}

  size_t workspace_bytes() const override { return parts_ == 1 ? 0 : 2 * bytes_; }

  void run(const Launch& launch) const override {
    if (at_.channels == 0) return;
    Call call(launch, kernel_);
    // What has no elements need not have an address either.
    at_.rows == 0 ? call.out(0) : call.in(0);
    if (parts_ == 1) {
      call.out(0).out(1);
    } else {
      call.workspace().workspace(bytes_);
    }
    constexpr int64_t kBlock = 64;
    call.whole(at_.rows).whole(at_.channels).whole(parts_).whole(kBlock);
    columns_.issue(call, kernel_, parts_);
    if (parts_ == 1) return;
    Call joining(launch, join_);
    joining.workspace().workspace(bytes_).out(0).out(1);
    joining.whole(at_.rows).whole(at_.channels).whole(parts_).each(at_.channels);
  }

 private:
  const ChannelRows at_;
  const Kernel kernel_;
  const Kernel join_;
  const Columns columns_;
  const int64_t parts_;
  const size_t bytes_;  // The bytes of the parts of one output.
};

ExecutablePtr prepare_moments(const Signature& s, const Device& device) {
  const DType dtype = s.inputs[0].dtype;
  const auto kernel = [&](const char* name, const char* body) {
    return Kernel(device, {.name = name,
                           .words = types_of(dtype),
                           .functions = {kColumns, kJoinMoments},
                           .body = body});
  };
  return std::make_shared<Moments>(ChannelRows(s.inputs[0].shape),
                                   kernel("channel_moments", kMoments),
                                   kernel("channel_moments_join", kJoin), size_of(dtype));
}

/// The sums of g, and of g (x - mean).
ExecutablePtr prepare_sums(const Signature& s, const Device& device) {
  const ChannelRows at(s.inputs[0].shape);
  return prepare_column_sums({.rows = at.rows,
                              .columns = at.channels,
                              .term = "g * (x - a[c])",
                              .g = 0,
                              .x = 1,
                              .a = 2,
                              .b = 2,
                              .sum = 0,
                              .product = 1},
                             s, device);
}

}  // namespace

void register_channel_statistics(op::BackendKernels& kernels) {
  const std::vector<DType> floating = {DType::float32, DType::float64};
  add_kernel(kernels, "channel_moments", floating, prepare_moments);
  add_kernel(kernels, "channel_sums", floating, prepare_sums);
}

}  // namespace tandem::kernels::gpu
