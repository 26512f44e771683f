#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

struct Geometry {
  Shape image;
  Pool2dOptions options{};
};

/// visit(result's index, pixels of the image in its window) over all windows, from the definition.
template <class Visit>
Shape for_each_window(const Geometry& g, Visit visit) {
  const auto& window = g.options.window;
  const auto strides = g.options.strides.value_or(window);
  const Padding& padding = g.options.padding;
  std::array<int64_t, 2> before{padding.height().first, padding.width().first};
  std::array<int64_t, 2> size{};
  const std::array<int64_t, 2> after{padding.height().second, padding.width().second};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t image = g.image[static_cast<int>(i) + 1];
    if (padding.kind() == Padding::Kind::same) {
      size[i] = (image + strides[i] - 1) / strides[i];
      before[i] = std::max<int64_t>(0, (size[i] - 1) * strides[i] + window[i] - image) / 2;
    } else {
      size[i] = (image + before[i] + after[i] - window[i]) / strides[i] + 1;
    }
  }
  for (int64_t n = 0; n < g.image[0]; ++n) {
    for (int64_t r = 0; r < size[0]; ++r) {
      for (int64_t c = 0; c < size[1]; ++c) {
        for (int64_t k = 0; k < g.image[3]; ++k) {
          std::vector<size_t> pixels;
          for (int64_t i = 0; i < window[0]; ++i) {
            for (int64_t j = 0; j < window[1]; ++j) {
              const int64_t y = r * strides[0] - before[0] + i;
              const int64_t x = c * strides[1] - before[1] + j;
              if (y < 0 || y >= g.image[1] || x < 0 || x >= g.image[2]) continue;
              pixels.push_back(
                  static_cast<size_t>(((n * g.image[1] + y) * g.image[2] + x) * g.image[3] + k));
            }
          }
          visit(pixels);
        }
      }
    }
  }
  return {g.image[0], size[0], size[1], g.image[3]};
}

OpRow max_row(const Geometry& g, const Tensor& x) {
  const auto values = x.to_vector<double>();
  std::vector<double> expected;
  const Shape shape = for_each_window(g, [&](const std::vector<size_t>& pixels) {
    double largest = -std::numeric_limits<double>::infinity();
    for (const size_t pixel : pixels) {
      if (!(values[pixel] <= largest)) largest = values[pixel];
      if (std::isnan(largest)) break;
    }
    expected.push_back(largest);
  });
  return {.name = "max_pool2d " + g.image.str(),
          .inputs = {x},
          .f = [o = g.options](const Tensors& t) { return max_pool2d(t[0], o); },
          .expected = expected,
          .shape = shape,
          .follows_rows = g.image[0] > 1};
}

OpRow avg_row(const Geometry& g, const Tensor& x) {
  const auto values = x.to_vector<double>();
  std::vector<double> expected;
  const Shape shape = for_each_window(g, [&](const std::vector<size_t>& pixels) {
    double sum = 0;
    for (const size_t pixel : pixels) sum += values[pixel];
    expected.push_back(sum / static_cast<double>(pixels.size()));
  });
  return {.name = "avg_pool2d " + g.image.str(),
          .inputs = {x},
          .f = [o = g.options](const Tensors& t) { return avg_pool2d(t[0], o); },
          .expected = expected,
          .shape = shape,
          .follows_rows = g.image[0] > 1};
}

const std::vector<Geometry>& geometries() {
  static const std::vector<Geometry> all = {
      {{2, 4, 4, 3}},
      {{2, 5, 7, 2}},
      {{2, 5, 5, 17}, {.padding = Padding::same}},
      {{3, 6, 5, 4}, {.window = {3, 3}, .strides = {{1, 1}}, .padding = Padding::same}},
      {{2, 7, 7, 1}, {.window = {3, 2}, .strides = {{2, 3}}}},
      {{2, 7, 7, 2}, {.window = {2, 2}, .strides = {{3, 3}}}},
      {{2, 4, 4, 2}, {.window = {3, 3}, .strides = {{2, 2}}, .padding = Padding({1, 0}, {2, 1})}},
      {{1, 1, 1, 5}, {.window = {3, 3}, .padding = Padding::same}},
      {{0, 4, 4, 3}},
      {{2, 4, 4, 0}},
  };
  return all;
}

TEST(Pooling, EveryGeometry) {
  for (const Geometry& g : geometries()) {
    check_op(max_row(g, spread(g.image)));
    check_op(avg_row(g, spread(g.image)));
  }
}

TEST(Pooling, NotANumberIsTheLargest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto row = max_row({{2, 2, 2, 1}}, doubles({1, nan, 3, 4, nan, 1, 2, 3}, {2, 2, 2, 1}));
  row.differentiable = false;
  EXPECT_TRUE(std::isnan(row.expected[0]) && std::isnan(row.expected[1]));
  check_op(row);
}

TEST(Pooling, InfinitiesAreOrdinaryValues) {
  const double inf = std::numeric_limits<double>::infinity();
  auto row = max_row({{1, 2, 4, 1}}, doubles({-inf, -inf, 1, inf, -inf, -inf, 2, 3}, {1, 2, 4, 1}));
  row.differentiable = false;
  EXPECT_EQ(row.expected, (std::vector<double>{-inf, inf}));
  check_op(row);
}

TEST(Pooling, TheFirstOfEqualsGetsTheGradient) {
  const Tensor x = doubles({5, 5, 5, 5, 1, 7, 7, 1}, {1, 2, 4, 1});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = max_pool2d(x);
  const Tensor g = tape.gradient(reduce_sum(y * doubles({2, 3}, {1, 1, 2, 1})), Tensors{x})[0];
  EXPECT_EQ(g.to_vector<double>(), (std::vector<double>{0, 0, 0, 0, 0, 2, 3, 0}));
}

TEST(Pooling, SecondDerivatives) {
  // The gradient of sum(y y) / 2 is y at each largest element: itself differentiable.
  for (const Geometry& g : geometries()) {
    const Tensor x = spread(g.image);
    const auto values = x.to_vector<double>();
    std::vector<double> max_gradient(values.size());
    std::vector<double> avg_gradient(values.size());
    for_each_window(g, [&](const std::vector<size_t>& pixels) {
      size_t largest = pixels[0];
      double sum = 0;
      for (const size_t pixel : pixels) {
        if (values[pixel] > values[largest]) largest = pixel;
        sum += values[pixel];
      }
      max_gradient[largest] += values[largest];
      const auto count = static_cast<double>(pixels.size());
      for (const size_t pixel : pixels) avg_gradient[pixel] += sum / count / count;
    });
    const auto gradient_of = [o = g.options](auto pool) {
      return [=](const Tensors& t) {
        GradientTape tape;
        tape.watch(t[0]);
        const Tensor y = pool(t[0], o);
        return tape.gradient(reduce_sum(y * y * 0.5), Tensors{t[0]})[0];
      };
    };
    check_op({.name = "gradient of max_pool2d",
              .inputs = {x},
              .f = gradient_of(max_pool2d),
              .expected = max_gradient,
              .shape = g.image});
    check_op({.name = "gradient of avg_pool2d",
              .inputs = {x},
              .f = gradient_of(avg_pool2d),
              .expected = avg_gradient,
              .shape = g.image});
  }
}

TEST(Pooling, ErrorsNameTheShapes) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        max_pool2d(fill({4, 4, 3}, 1));
      },
      {"max_pool2d: the image must be [batch,height,width,channels], got [4,4,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        avg_pool2d(fill({1, 1, 4, 3}, 1));
      },
      {"avg_pool2d: a window of [2,2] does not fit into [1,1,4,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        max_pool2d(fill({1, 4, 4, 3}, 1), {.window = {0, 2}});
      },
      {"max_pool2d: the window must be positive, got [0,2]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        max_pool2d(fill({1, 4, 4, 3}, 1), {.padding = Padding({2, 0}, {0, 0})});
      },
      {"max_pool2d: padding of 2 and 0 leaves windows of 2 empty"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        max_pool2d(fill({1, 4, 4, 3}, 1, DType::int32));
      },
      {"max_pool2d: int32 is not supported"}));
}

}  // namespace
}  // namespace tandem::harness
