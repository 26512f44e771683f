#include <gtest/gtest.h>

#include "device/logical_device.h"
#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

struct Geometry {
  Shape image, filter;
  Conv2dOptions options{};
};

/// Padding before, and size of the result, from the definition.
std::pair<int64_t, int64_t> placed(int64_t image, int64_t filter, int64_t stride, int64_t dilation,
                                   const Padding& padding, const Padding::Pair& pair) {
  const int64_t reach = (filter - 1) * dilation + 1;
  if (padding.kind() == Padding::Kind::same) {
    const int64_t results = (image + stride - 1) / stride;
    return {std::max<int64_t>(0, (results - 1) * stride + reach - image) / 2, results};
  }
  const bool none = padding.kind() == Padding::Kind::valid;
  const int64_t before = none ? 0 : pair.first;
  const int64_t after = none ? 0 : pair.second;
  return {before, (image + before + after - reach) / stride + 1};
}

Shape result_shape(const Geometry& g) {
  const auto size = [&](int axis) {
    const auto i = static_cast<size_t>(axis);
    return placed(g.image[axis + 1], g.filter[axis], g.options.strides[i], g.options.dilations[i],
                  g.options.padding,
                  axis == 0 ? g.options.padding.height() : g.options.padding.width())
        .second;
  };
  return {g.image[0], size(0), size(1), g.filter[3]};
}

std::vector<double> plain_convolution(const Geometry& g, const std::vector<double>& x,
                                      const std::vector<double>& w) {
  const auto& o = g.options;
  const auto [top, height] =
      placed(g.image[1], g.filter[0], o.strides[0], o.dilations[0], o.padding, o.padding.height());
  const auto [left, width] =
      placed(g.image[2], g.filter[1], o.strides[1], o.dilations[1], o.padding, o.padding.width());
  const int64_t in = g.filter[2];
  const int64_t out = g.filter[3];
  std::vector<double> result;
  for (int64_t n = 0; n < g.image[0]; ++n) {
    for (int64_t r = 0; r < height; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t k = 0; k < out; ++k) {
          const int64_t group = k / (out / o.groups);
          double sum = 0;
          for (int64_t i = 0; i < g.filter[0]; ++i) {
            for (int64_t j = 0; j < g.filter[1]; ++j) {
              const int64_t y = r * o.strides[0] - top + i * o.dilations[0];
              const int64_t z = c * o.strides[1] - left + j * o.dilations[1];
              if (y < 0 || y >= g.image[1] || z < 0 || z >= g.image[2]) continue;
              for (int64_t p = 0; p < in; ++p) {
                const int64_t pixel =
                    ((n * g.image[1] + y) * g.image[2] + z) * g.image[3] + group * in + p;
                const int64_t weight = ((i * g.filter[1] + j) * in + p) * out + k;
                sum += x[static_cast<size_t>(pixel)] * w[static_cast<size_t>(weight)];
              }
            }
          }
          result.push_back(sum);
        }
      }
    }
  }
  return result;
}

OpRow row_of(const Geometry& g) {
  const Tensor x = spread(g.image, 1);
  const Tensor w = spread(g.filter, 2);
  return {.name = "conv2d " + g.image.str() + g.filter.str(),
          .inputs = {x, w},
          .f = [o = g.options](const Tensors& t) { return conv2d(t[0], t[1], o); },
          .expected = plain_convolution(g, x.to_vector<double>(), w.to_vector<double>()),
          .shape = result_shape(g),
          .follows_rows = g.image[0] > 1 && g.image[0] != g.filter[0]};
}

const std::vector<Geometry>& geometries() {
  static const std::vector<Geometry> all = {
      {{2, 5, 6, 3}, {3, 3, 3, 4}},
      {{2, 5, 6, 3}, {3, 2, 3, 4}, {.padding = Padding::same}},
      {{4, 6, 5, 2}, {3, 3, 2, 2}, {.strides = {2, 2}, .padding = Padding::same}},
      {{4, 7, 5, 2}, {2, 3, 2, 3}, {.strides = {3, 2}}},
      {{2, 7, 7, 2}, {3, 3, 2, 2}, {.padding = Padding::same, .dilations = {2, 2}}},
      {{2, 4, 4, 2}, {3, 3, 2, 2}, {.padding = Padding({2, 0}, {1, 3})}},
      {{2, 5, 5, 4}, {3, 3, 2, 6}, {.padding = Padding::same, .groups = 2}},
      {{2, 4, 4, 3}, {3, 3, 1, 3}, {.padding = Padding::same, .groups = 3}},
      {{2, 4, 4, 3}, {1, 1, 3, 5}},
      {{2, 5, 4, 3}, {1, 1, 3, 5}, {.strides = {2, 2}}},
      {{1, 3, 3, 1}, {3, 3, 1, 1}},
      {{2, 1, 1, 2}, {3, 3, 2, 2}, {.padding = Padding::same}},
      {{2, 3, 3, 0}, {2, 2, 0, 2}},
      {{2, 3, 3, 2}, {2, 2, 2, 0}},
      {{0, 3, 3, 2}, {2, 2, 2, 2}},
  };
  return all;
}

TEST(Convolution, EveryGeometry) {
  for (const Geometry& geometry : geometries()) check_op(row_of(geometry));
}

/// What float32 computes is what float64 computes, forward and in both gradients, on any number of
/// threads, with fewer images than threads too.
TEST(Convolution, Float32AgreesWithFloat64) {
  const std::vector<Geometry> larger = {
      {{5, 13, 13, 32}, {3, 3, 32, 64}, {.padding = Padding::same}},
      {{3, 28, 28, 1}, {3, 3, 1, 32}},
      {{1, 14, 14, 16}, {5, 5, 16, 24}, {.strides = {2, 2}, .padding = Padding::same}},
      {{2, 9, 9, 16}, {3, 3, 8, 16}, {.padding = Padding::same, .groups = 2}},
      {{4, 9, 9, 24}, {3, 3, 1, 24}, {.padding = Padding::same, .groups = 24}},
      {{4, 8, 8, 24}, {1, 1, 24, 40}},
      {{2, 12, 12, 9}, {3, 3, 9, 7}, {.padding = Padding::same, .dilations = {2, 2}}},
  };
  auto all = geometries();
  all.insert(all.end(), larger.begin(), larger.end());
  for (const int threads : {1, 2, 3}) {
    devices::reset_devices();
    config::set_logical_cpus({{.threads = threads}});
    for (const Geometry& g : all) {
      const auto results = [&](DType dtype) {
        const Tensor x = cast(spread(g.image, 1), dtype);
        const Tensor w = cast(spread(g.filter, 2), dtype);
        const auto both = FlatFunction([&](const Tensors& t) {
          GradientTape tape;
          tape.watch(t[0]);
          tape.watch(t[1]);
          const Tensor y = conv2d(t[0], t[1], g.options);
          Tensors all = tape.gradient(reduce_sum(y * y), t);
          all.push_back(y);
          return all;
        });
        std::vector<std::vector<double>> values;
        for (const Tensor& t : both(Tensors{x, w})) {
          values.push_back(cast(t, DType::float64).to_vector<double>());
        }
        return values;
      };
      const auto exact = results(DType::float64);
      const auto got = results(DType::float32);
      for (size_t i = 0; i < exact.size(); ++i) {
        double largest = 1;
        for (const double value : exact[i]) largest = std::max(largest, std::abs(value));
        for (size_t k = 0; k < exact[i].size(); ++k) {
          ASSERT_NEAR(got[i][k], exact[i][k], 1e-5 * largest)
              << g.image.str() << g.filter.str() << " result " << i << " on " << threads;
        }
      }
    }
  }
  devices::reset_devices();
}

TEST(Convolution, SecondDerivatives) {
  const Geometry g{{2, 4, 4, 2}, {3, 3, 2, 2}, {.strides = {2, 1}, .padding = Padding::same}};
  // With c = conv(x, w): the gradients of sum(c c) / 2 by x and by w, themselves checked by
  // differences in both.
  for (const size_t by : {0, 1}) {
    const auto f = [g, by](const Tensors& t) {
      GradientTape tape;
      tape.watch(t[by]);
      const Tensor c = conv2d(t[0], t[1], g.options);
      return tape.gradient(reduce_sum(c * c * 0.5), Tensors{t[by]})[0];
    };
    const Tensors inputs{spread(g.image, 1), spread(g.filter, 2)};
    check_op({.name = "gradient " + std::to_string(by),
              .inputs = inputs,
              .f = f,
              .expected =
                  [&] {
                    // Linear in each element: a difference of any width is exact.
                    std::vector<std::vector<double>> plain{inputs[0].to_vector<double>(),
                                                           inputs[1].to_vector<double>()};
                    const auto energy = [&] {
                      double sum = 0;
                      for (const double c : plain_convolution(g, plain[0], plain[1])) {
                        sum += c * c / 2;
                      }
                      return sum;
                    };
                    std::vector<double> gradient;
                    for (double& element : plain[by]) {
                      const double before = element;
                      element = before + 1;
                      const double above = energy();
                      element = before - 1;
                      gradient.push_back((above - energy()) / 2);
                      element = before;
                    }
                    return gradient;
                  }(),
              .shape = inputs[by].shape(),
              .tolerance = 1e-11});
  }
}

TEST(Convolution, DepthwiseIsOneConvolutionPerChannel) {
  const Shape image{2, 5, 5, 3};
  for (const int64_t multiplier : {1, 2}) {
    const Tensor x = spread(image, 1);
    const Tensor w = spread({3, 3, 3, multiplier}, 2);
    const Conv2dOptions grouped{.padding = Padding::same, .groups = 3};
    check_op({.name = "depthwise",
              .inputs = {x, w},
              .f =
                  [](const Tensors& t) {
                    return depthwise_conv2d(t[0], t[1], {.padding = Padding::same});
                  },
              .expected = plain_convolution({image, {3, 3, 1, 3 * multiplier}, grouped},
                                            x.to_vector<double>(), w.to_vector<double>()),
              .shape = {2, 5, 5, 3 * multiplier},
              .follows_rows = true});
  }
  EXPECT_EQ(depthwise_conv2d(fill({2, 3, 3, 0}, 1), fill({2, 2, 0, 2}, 1)).shape(),
            Shape({2, 2, 2, 0}));
}

TEST(Convolution, ErrorsNameTheShapes) {
  const auto message = [](const Shape& image, const Shape& filter, const Conv2dOptions& options) {
    return [=] { conv2d(fill(image, 1), fill(filter, 1), options); };
  };
  EXPECT_TRUE(throws<InvalidArgument>(
      message({2, 5, 5, 3}, {3, 3, 4, 8}, {}),
      {"conv2d: channels do not agree, image [2,5,5,3] and filter [3,3,4,8] in 1 group"}));
  EXPECT_TRUE(throws<InvalidArgument>(message({2, 5, 5, 4}, {3, 3, 2, 3}, {.groups = 2}),
                                      {"image [2,5,5,4] and filter [3,3,2,3] in 2 groups"}));
  EXPECT_TRUE(throws<InvalidArgument>(message({5, 5, 3}, {3, 3, 3, 8}, {}),
                                      {"conv2d: the image must be", "[5,5,3] and [3,3,3,8]"}));
  EXPECT_TRUE(throws<InvalidArgument>(message({2, 2, 5, 3}, {3, 3, 3, 8}, {}),
                                      {"conv2d: a window of [3,3] does not fit into [2,2,5,3]"}));
  EXPECT_TRUE(throws<InvalidArgument>(message({2, 5, 5, 3}, {3, 3, 3, 8}, {.strides = {0, 1}}),
                                      {"conv2d: strides must be positive, got [0,1]"}));
  EXPECT_TRUE(throws<InvalidArgument>(message({2, 5, 5, 3}, {3, 3, 3, 8}, {.groups = 0}),
                                      {"conv2d: groups must be positive, got 0"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      message({2, 5, 5, 3}, {3, 3, 3, 8}, {.padding = Padding({-1, 0}, {0, 0})}),
      {"conv2d: padding must not be negative, got -1 and 0"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        depthwise_conv2d(fill({2, 5, 5, 3}, 1), fill({3, 3, 4, 1}, 1));
      },
      {"depthwise_conv2d: channels do not agree, image [2,5,5,3] and filter [3,3,4,1]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        conv2d(fill({2, 5, 5, 3}, 1), fill({3, 3, 3, 8}, 1, DType::float64));
      },
      {"conv2d: dtypes differ"}));
}

}  // namespace
}  // namespace tandem::harness
