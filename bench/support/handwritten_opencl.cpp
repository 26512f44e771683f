#include "support/handwritten_opencl.h"

#include <bit>
#include <deque>

#include "device/gpu/compiler.h"
#include "device/gpu/gpu_timeline.h"
#include "device/opencl/opencl_driver.h"
#include "harness/classifier.h"

namespace tandem::bench {
namespace {

using namespace devices::gpu;  // NOLINT: this file speaks of nothing else

constexpr int64_t kRows = 128;

/// c = a b, where a(i, p) = A[i sa + p ta] and b(p, j) = B[p sb + j tb]. An item makes a block of
/// 48 x 64 at most, in tiles of 6 x 16, and packs panels of B. `after`: 1 adds a bias, 2 takes the
/// positive part, 4 takes only what has a positive mask.
constexpr const char* kProduct = R"(
#define TILE_ROWS 6
KERNEL NAME(MEMORY(0), i64 sa, i64 ta, MEMORY(1), i64 sb, i64 tb, MEMORY(2), i64 m, i64 n, i64 k,
            MEMORY(3), MEMORY(4), i64 after, i64 block_rows, i64 block_columns) {
  const GLOBAL float* A = AT(float, 0); const GLOBAL float* B = AT(float, 1);
  GLOBAL float* C = AT(float, 2);
  const GLOBAL float* bias = AT(float, 3); const GLOBAL float* mask = AT(float, 4);
  const i64 down = (m + block_rows - 1) / block_rows;
  const i64 i0 = GROUP() % down * block_rows, j0 = GROUP() / down * block_columns;
  const i64 i_end = min(i0 + block_rows, m), j_end = min(j0 + block_columns, n);
  float16 panel[256];
  for (i64 j = j0; j < j_end; j += 16) {
    const int width = (int)min((i64)16, n - j);
    for (i64 k0 = 0; k0 < k; k0 += 256) {
      const int depth = (int)min((i64)256, k - k0);
      const int is_last = k0 + 256 >= k;
      if (width == 16 && tb == 1) {
        for (int p = 0; p < depth; ++p) panel[p] = vload16(0, B + (k0 + p) * sb + j);
      } else {
        float* to = (float*)panel;
        for (int x = 0; x < 16; ++x)
          for (int p = 0; p < depth; ++p)
            to[p * 16 + x] = x < width ? B[(k0 + p) * sb + (j + x) * tb] : 0.0f;
      }
      for (i64 i = i0; i < i_end; i += TILE_ROWS) {
        const int height = (int)min((i64)TILE_ROWS, i_end - i);
        float16 c[TILE_ROWS];
        const GLOBAL float* a[TILE_ROWS];
        #pragma unroll
        for (int r = 0; r < TILE_ROWS; ++r) {
          c[r] = 0;
          a[r] = A + min(i + r, i_end - 1) * sa + k0 * ta;
        }
        for (int p = 0; p < depth; ++p) {
          const float16 b = panel[p];
          #pragma unroll
          for (int r = 0; r < TILE_ROWS; ++r) c[r] = fma((float16)(a[r][p * ta]), b, c[r]);
        }
        for (int r = 0; r < height; ++r) {
          GLOBAL float* to = C + (i + r) * n + j;
          float values[16];
          vstore16(c[r], 0, values);
          for (int x = 0; x < width; ++x) {
            float v = values[x] + (k0 > 0 ? to[x] : 0.0f);
            if (is_last) {
              if (after & 1) v += bias[j + x];
              if (after & 2) v = fmax(v, 0.0f);
              if (after & 4) v = mask[(i + r) * n + j + x] > 0.0f ? v : 0.0f;
            }
            to[x] = v;
          }
        }
      }
    }
  }
}
)";

constexpr const char* kColumnSums = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 m, i64 n) {
  const GLOBAL float* x = AT(float, 0);
  GLOBAL float* y = AT(float, 1);
  const i64 begin = n * GID() / GSIZE(), end = n * (GID() + 1) / GSIZE();
  for (i64 j = begin; j < end; ++j) y[j] = 0;
  for (i64 i = 0; i < m; ++i)
    for (i64 j = begin; j < end; ++j) y[j] += x[i * n + j];
}
)";

constexpr const char* kLoss = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), i64 m, i64 n) {
  EACH(i, m) {
    const GLOBAL float* z = AT(float, 0) + i * n;
    const GLOBAL float* y = AT(float, 1) + i * n;
    GLOBAL float* g = AT(float, 3) + i * n;
    float most = z[0], sum = 0, loss = 0;
    for (i64 j = 1; j < n; ++j) most = fmax(most, z[j]);
    for (i64 j = 0; j < n; ++j) sum += exp(z[j] - most);
    for (i64 j = 0; j < n; ++j) {
      g[j] = (exp(z[j] - most) / sum - y[j]) / (float)m;
      loss -= y[j] * (z[j] - most - log(sum));
    }
    AT(float, 2)[i] = loss;
  }
}
)";

constexpr const char* kMean = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), i64 n) {
  float sum = 0;
  for (i64 i = 0; i < n; ++i) sum += AT(float, 0)[i];
  AT(float, 1)[0] = sum / (float)n;
}
)";

/// The counter of steps is on the device, as the library's.
constexpr const char* kAdam = R"(
KERNEL NAME(MEMORY(0), MEMORY(1), MEMORY(2), MEMORY(3), MEMORY(4), i64 n, double rate) {
  const GLOBAL float* g = AT(float, 0); GLOBAL float* w = AT(float, 1);
  GLOBAL float* m = AT(float, 2); GLOBAL float* v = AT(float, 3);
  const double step = (double)AT(i64, 4)[0];
  const float alpha = (float)(rate * sqrt(1 - pow(0.999, step)) / (1 - pow(0.9, step)));
  EACH(i, n) {
    const float gi = g[i];
    const float mi = m[i] + (gi - m[i]) * 0.1f;
    const float vi = v[i] + (gi * gi - v[i]) * 0.001f;
    m[i] = mi;
    v[i] = vi;
    w[i] -= alpha * mi / (sqrt(vi) + 1e-7f);
  }
}
)";

constexpr const char* kCount = R"(
KERNEL NAME(MEMORY(0)) { AT(i64, 0)[0] += 1; }
)";

}  // namespace

class HandwrittenStep::Body {
 public:
  Body(const std::vector<int64_t>& sizes, double learning_rate)
      : driver_(devices::opencl::find_drivers().at(0)),
        compiler_("by hand", driver_, KernelForm::serial),
        stream_(driver_->create_stream()) {
    const harness::Classifier<float> model(sizes, learning_rate);
    const auto product = add("product", kProduct);
    const auto sums = add("column_sums", kColumnSums);
    const auto loss = add("loss", kLoss);
    const auto mean = add("mean", kMean);
    const auto adam = add("adam", kAdam);
    const auto count = add("count", kCount);
    const size_t layers = sizes.size() - 1;
    const Memory step = filled(std::vector<int64_t>(1));
    std::vector<Memory> h = {filled(harness::features<float>(kRows).to_vector<float>())};
    std::vector<Memory> dh, w, b, dw, db;
    for (size_t l = 0; l < layers; ++l) {
      w.push_back(filled(model.variables[2 * l].value().to_vector<float>()));
      b.push_back(zeros(sizes[l + 1]));
      dw.push_back(zeros(sizes[l] * sizes[l + 1]));
      db.push_back(zeros(sizes[l + 1]));
      h.push_back(zeros(kRows * sizes[l + 1]));
      dh.push_back(zeros(kRows * sizes[l + 1]));
    }
    const Memory y = filled(harness::labels<float>(kRows).to_vector<float>());
    const Memory losses = zeros(kRows);
    loss_ = zeros(1);

    const auto multiply = [&](Memory a, int64_t sa, int64_t ta, Memory bm, int64_t sb, int64_t tb,
                              Memory c, int64_t m, int64_t n, int64_t k, int64_t after, Memory bias,
                              Memory mask) {
      const int64_t rows = m > 200 ? 48 : 36;
      const int64_t columns = 64;
      const int64_t groups = ((m + rows - 1) / rows) * ((n + columns - 1) / columns);
      launch(product, {groups, 1},
             {a, nullptr, sa, ta,   bm,      nullptr, sb,      tb,    c,    nullptr,
              m, n,       k,  bias, nullptr, mask,    nullptr, after, rows, columns});
    };
    for (size_t l = 0; l < layers; ++l) {
      multiply(h[l], sizes[l], 1, w[l], sizes[l + 1], 1, h[l + 1], kRows, sizes[l + 1], sizes[l],
               l + 1 < layers ? 3 : 1, b[l], b[l]);
    }
    const int64_t classes = sizes.back();
    launch(
        loss, {4, 1},
        {h[layers], nullptr, y, nullptr, losses, nullptr, dh[layers - 1], nullptr, kRows, classes});
    launch(mean, {1, 1}, {losses, nullptr, loss_, nullptr, kRows});
    for (size_t l = layers; l-- > 0;) {
      multiply(h[l], 1, sizes[l], dh[l], sizes[l + 1], 1, dw[l], sizes[l], sizes[l + 1], kRows, 0,
               b[l], b[l]);
      launch(sums, {sizes[l + 1] > 64 ? 4 : 1, 1},
             {dh[l], nullptr, db[l], nullptr, kRows, sizes[l + 1]});
      if (l == 0) continue;
      multiply(dh[l], sizes[l + 1], 1, w[l], 1, sizes[l + 1], dh[l - 1], kRows, sizes[l],
               sizes[l + 1], 4, b[l], h[l]);
    }
    launch(count, {1, 1}, {step, nullptr});
    for (size_t l = 0; l < layers; ++l) {
      const auto update = [&](Memory g, Memory v, int64_t n) {
        launch(adam, {n > 4096 ? 4 : 1, 1},
               {g, nullptr, v, nullptr, zeros(n), nullptr, zeros(n), nullptr, step, nullptr, n,
                learning_rate});
      };
      update(dw[l], w[l], sizes[l] * sizes[l + 1]);
      update(db[l], b[l], sizes[l + 1]);
    }
  }

  void run() {
    if (marks_.size() == 2) {
      wait_for(*marks_.front(), core::Clock::now() + std::chrono::seconds(60));
      marks_.pop_front();
    }
    for (const Issue& issue : issues_) {
      stream_->launch(compiler_.get(*issue.kernel), issue.grid, issue.arguments);
    }
    marks_.push_back(stream_->mark(nullptr));
  }

  float loss() {
    float value = 0;
    stream_->read(&value, {loss_, 0}, sizeof value);
    wait_for(*stream_->mark(nullptr), core::Clock::now() + std::chrono::seconds(60));
    return value;
  }

 private:
  struct Issue {
    CompiledKernelPtr kernel;
    Grid grid;
    std::vector<KernelArgument> arguments;
  };

  /// What stands in a list of arguments. After an allocation comes its offset, which is 0.
  struct Word {
    Word(Memory memory) : argument{.memory = memory} {}                      // NOLINT
    Word(std::nullptr_t) : argument{} {}                                     // NOLINT
    Word(int64_t whole) : argument{.bits = static_cast<uint64_t>(whole)} {}  // NOLINT
    Word(double real) : argument{.bits = std::bit_cast<uint64_t>(real)} {}   // NOLINT
    KernelArgument argument;
  };

  CompiledKernelPtr add(const char* name, const char* body) {
    return compiler_.add({.name = name, .body = body});
  }

  void launch(const CompiledKernelPtr& kernel, const Grid& grid, const std::vector<Word>& words) {
    Issue issue{kernel, grid, {}};
    for (const Word& word : words) issue.arguments.push_back(word.argument);
    issues_.push_back(std::move(issue));
  }

  Memory zeros(int64_t count) { return filled(std::vector<float>(static_cast<size_t>(count))); }

  template <class T>
  Memory filled(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    const Memory memory = driver_->allocate(bytes);
    stream_->write({memory, 0}, values.data(), bytes);
    wait_for(*stream_->mark(nullptr), core::Clock::now() + std::chrono::seconds(60));
    return memory;
  }

  const DriverPtr driver_;
  Compiler compiler_;
  const std::shared_ptr<Stream> stream_;
  std::vector<Issue> issues_;
  std::deque<std::shared_ptr<Mark>> marks_;
  Memory loss_ = nullptr;
};

HandwrittenStep::HandwrittenStep(const std::vector<int64_t>& sizes, double learning_rate)
    : body_(std::make_unique<Body>(sizes, learning_rate)) {}
HandwrittenStep::~HandwrittenStep() = default;
void HandwrittenStep::run() { body_->run(); }
float HandwrittenStep::loss() { return body_->loss(); }

}  // namespace tandem::bench
