// Numbers that become sizes, or the bytes of tensors, may have any value: what comes of them is a
// result or a tandem::Error.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "harness/fresh_devices.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::harness {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const std::vector<int64_t> kSizes = {
    kLeast,
    kLeast + 1,
    -(int64_t{1} << 60),
    -1000,
    -2,
    -1,
    0,
    1,
    2,
    int64_t{1} << 31,
    int64_t{1} << 32,
    (int64_t{1} << 32) + 1,
    int64_t{1} << 58,
    (int64_t{1} << 58) + 1,
    int64_t{1} << 60,
    1'000'000'000'000'000'000,
    int64_t{1} << 62,
    kLargest - 1,
    kLargest,
};

/// Fails unless the call succeeds or throws a tandem::Error.
void expect_error_or_result(const std::string& name, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
  } catch (const std::exception& other) {
    ADD_FAILURE() << name << " threw " << other.what();
  }
}

/// A device whose memory ends early, so that nothing large is ever made.
class Sizes : public FreshDevices {
 protected:
  void SetUp() override {
    FreshDevices::SetUp();
    config::set_logical_cpus({{.threads = 1, .memory_limit = size_t{1} << 20}});
  }

  using OfSize = std::function<Tensor(int64_t)>;
  struct Named {
    const char* name;
    OfSize make;
  };

  /// Eagerly and in a function.
  static void check(const std::vector<Named>& functions) {
    for (const auto& [name, make] : functions) {
      for (int64_t size : kSizes) {
        const std::string call = std::string(name) + " of " + std::to_string(size);
        expect_error_or_result(call, [&, &make = make] { make(size); });
        expect_error_or_result(call + " traced",
                               [&, &make = make] { function([&] { return make(size); })(); });
      }
    }
  }
};

TEST_F(Sizes, OfNewTensors) {
  check({
      {"zeros[n]", [](int64_t n) { return zeros({n}); }},
      {"zeros[n,n]",
       [](int64_t n) {
         return zeros({n, n}, DType::float64);
       }},
      {"zeros[n,0]",
       [](int64_t n) {
         return zeros({n, 0});
       }},
      {"zeros[0,n,n]",
       [](int64_t n) {
         return zeros({0, n, n});
       }},
      {"fill",
       [](int64_t n) {
         return fill({2, n}, 1, DType::uint8);
       }},
      {"eye", [](int64_t n) { return eye(n); }},
      {"eye of columns", [](int64_t n) { return eye(2, n); }},
      {"eye of rows", [](int64_t n) { return eye(n, 0); }},
      {"one_hot",
       [](int64_t n) {
         return one_hot(Tensor::of({0, 1, 2}), n);
       }},
      {"one_hot of nothing", [](int64_t n) { return one_hot(zeros({0}, DType::int32), n); }},
      {"range", [](int64_t n) { return range(0, static_cast<double>(n)); }},
      {"random_normal",
       [](int64_t n) {
         return random_normal({n, 3});
       }},
      {"random_truncated_normal", [](int64_t n) { return random_truncated_normal({n}); }},
      {"random_uniform",
       [](int64_t n) {
         return random_uniform({n, n});
       }},
      {"random_integers", [](int64_t n) { return random_integers({n}, 0, 5); }},
      {"random_integers up to", [](int64_t n) { return random_integers({2}, -1, n); }},
      {"random_bernoulli", [](int64_t n) { return random_bernoulli({n}, 0.5); }},
      {"random_permutation", [](int64_t n) { return random_permutation(n); }},
      {"a list",
       [](int64_t n) {
         return Tensor::from<float>({1, 2}, {n, 2});
       }},
      {"a copy",
       [](int64_t n) {
         const float number = 1;
         return Tensor::copy_of(&number, DType::float32, {std::min(n, int64_t{1})});
       }},
      {"the user's memory",
       [](int64_t n) {
         const float number = 1;
         return Tensor::wrap(&number, DType::float32, {std::min(n, int64_t{1})}, nullptr);
       }},
      {"a variable",
       [](int64_t n) {
         return Variable(zeros({0, n})).value();
       }},
  });
}

TEST_F(Sizes, OfTensorsInAnotherShape) {
  const Tensor x = ones({2, 3});
  const Tensor none = zeros({2, 0});
  check({
      {"reshape", [&](int64_t n) { return reshape(x, {n}); }},
      {"reshape to two",
       [&](int64_t n) {
         return reshape(x, {n, -1});
       }},
      {"reshape of nothing",
       [&](int64_t n) {
         return reshape(none, {n, 0});
       }},
      {"reshape of nothing to two",
       [&](int64_t n) {
         return reshape(none, {n, n, 0});
       }},
      {"broadcast_to",
       [&](int64_t n) {
         return broadcast_to(x, {n, 2, 3});
       }},
      {"broadcast_to of one",
       [](int64_t n) {
         return broadcast_to(ones({}), {n, n});
       }},
      {"broadcast_to of nothing",
       [&](int64_t n) {
         return broadcast_to(none, {n, 2, 0});
       }},
      {"tile",
       [&](int64_t n) {
         return tile(x, {n, n});
       }},
      {"tile rows",
       [&](int64_t n) {
         return tile(x, {n, 1});
       }},
      {"tile of nothing",
       [&](int64_t n) {
         return tile(none, {1, n});
       }},
      {"tile of nothing, twice",
       [&](int64_t n) {
         return tile(none, {n, n});
       }},
      {"pad",
       [&](int64_t n) {
         return pad(x, {{n, n}, {0, 0}});
       }},
      {"pad before",
       [&](int64_t n) {
         return pad(x, {{n, 0}, {1, n}});
       }},
      {"pad nothing",
       [&](int64_t n) {
         return pad(none, {{n, 0}, {0, 0}});
       }},
      {"concat",
       [&](int64_t n) {
         const Tensor part = zeros({n, 0});
         return concat(Tensors(40, part), 0);
       }},
      {"stack",
       [](int64_t n) {
         return stack(Tensors(3, zeros({0, n})), 0);
       }},
      {"sum of an outer product",
       [](int64_t n) {
         return reduce_sum(zeros({0, n, 1}) + zeros({0, 1, n}), {.axes = {1}});
       }},
      {"matmul",
       [](int64_t n) {
         return matmul(zeros({n, 0}), zeros({0, n}));
       }},
      {"transpose",
       [](int64_t n) {
         return transpose(zeros({0, n, 2}));
       }},
      {"cumsum",
       [](int64_t n) {
         return cumsum(zeros({n, 0}));
       }},
      {"gather",
       [](int64_t n) {
         return gather(zeros({3, 0, n}), Tensor::of({0, 1, 2}));
       }},
      {"to_categorical",
       [](int64_t n) {
         return keras::utils::to_categorical(Tensor::of({0, 1}), n);
       }},
  });
}

Tensor first(const Tensors& parts) { return parts.empty() ? zeros({0}) : parts[0]; }

TEST_F(Sizes, OfParts) {
  const Tensor x = ones({2, 3});
  const Tensor none = zeros({2, 0});
  check({
      {"slice from",
       [&](int64_t n) {
         return slice(x, {n, 0}, {1, 1});
       }},
      {"slice of",
       [&](int64_t n) {
         return slice(x, {1, 0}, {n, n});
       }},
      {"slice from and of",
       [&](int64_t n) {
         return slice(x, {n, n}, {n, -1});
       }},
      {"strides from", [&](int64_t n) { return strided_slice(x, {{.begin = n}}); }},
      {"strides to", [&](int64_t n) { return strided_slice(x, {{.end = n, .step = -1}}); }},
      {"steps",
       [&](int64_t n) {
         return strided_slice(x, {{.step = n}, {.begin = n}});
       }},
      {"a place", [&](int64_t n) { return x[n]; }},
      {"rows", [&](int64_t n) { return x.rows(n, kLargest); }},
      {"an element",
       [&](int64_t n) {
         return Tensor(x.at<float>({n, 0}));
       }},
      {"split",
       [&](int64_t n) {
         return first(split(x, {n, n, -1}));
       }},
      {"split in parts", [&](int64_t n) { return first(split(x, static_cast<int>(n), 1)); }},
      {"split nothing in parts",
       [&](int64_t n) { return first(split(none, static_cast<int>(n), 1)); }},
      {"unstack",
       [](int64_t n) {
         return first(unstack(zeros({n, 0})));
       }},
      {"rows shuffled",
       [](int64_t n) {
         return random_shuffle(zeros({n, 0}));
       }},
  });
}

TEST_F(Sizes, OfWindows) {
  const Tensor image = ones({1, 4, 4, 2});
  const Tensor filter = ones({2, 2, 2, 2});
  check({
      {"stride",
       [&](int64_t n) {
         return conv2d(image, filter, {.strides = {n, n}});
       }},
      {"dilation",
       [&](int64_t n) {
         return conv2d(image, filter, {.dilations = {n, 1}});
       }},
      {"groups", [&](int64_t n) { return conv2d(image, filter, {.groups = n}); }},
      {"padding",
       [&](int64_t n) {
         return conv2d(image, filter, {.padding = Padding({n, n}, {0, n})});
       }},
      {"same padding",
       [&](int64_t n) {
         return conv2d(image, filter, {.strides = {n, 1}, .padding = Padding::same});
       }},
      {"wide padding",
       [&](int64_t n) {
         return conv2d(image, filter, {.padding = Padding({0, n}, {0, 0}), .dilations = {n, 1}});
       }},
      {"depthwise",
       [&](int64_t n) {
         return depthwise_conv2d(image, filter, {.strides = {n, n}});
       }},
      {"pool",
       [&](int64_t n) {
         return max_pool2d(image, {.window = {n, n}});
       }},
      {"same pool",
       [&](int64_t n) {
         return avg_pool2d(image, {.window = {n, 2}, .padding = Padding::same});
       }},
      {"pool's stride",
       [&](int64_t n) {
         return max_pool2d(image, {.strides = {n, n}});
       }},
      {"pool's padding",
       [&](int64_t n) {
         return avg_pool2d(image, {.window = {n, 2}, .padding = Padding({n - 1, 0}, {0, 0})});
       }},
  });
}

TEST_F(Sizes, OfLayers) {
  namespace layers = keras::layers;
  const auto call = [](const keras::Layer& layer, const Shape& shape) {
    return layer(zeros(shape));
  };
  check({
      {"Dense",
       [&](int64_t n) {
         return call(layers::Dense(n), {2, 3});
       }},
      {"Embedding",
       [&](int64_t n) {
         return layers::Embedding(n, 2)(zeros({2, 3}, DType::int32));
       }},
      {"Embedding's width",
       [&](int64_t n) {
         return layers::Embedding(2, n)(zeros({2, 3}, DType::int32));
       }},
      {"Conv2D",
       [&](int64_t n) {
         return call(layers::Conv2D(n, 2), {1, 4, 4, 2});
       }},
      {"Conv2D's kernel",
       [&](int64_t n) {
         return call(layers::Conv2D(2, n), {1, 4, 4, 2});
       }},
      {"Reshape",
       [&](int64_t n) {
         return call(layers::Reshape({n, n}), {2, 4});
       }},
      {"ZeroPadding2D",
       [&](int64_t n) {
         return call(layers::ZeroPadding2D(n), {1, 2, 2, 1});
       }},
      {"MaxPooling2D",
       [&](int64_t n) {
         return call(layers::MaxPooling2D(n), {1, 4, 4, 2});
       }},
  });
}

TEST_F(Sizes, OfDataSets) {
  using data::Dataset;
  const auto first = [](const Dataset& dataset) {
    auto iterator = dataset.iterator();
    for (int i = 0; i < 3 && iterator.next(); ++i) {
    }
    return Tensor();
  };
  const auto one = [] {
    return [left = 5]() mutable -> std::optional<Tensor> {
      if (left-- == 0) return std::nullopt;
      return zeros({3});
    };
  };
  const std::vector<Named> functions = {
      {"range", [&](int64_t n) { return first(Dataset::range(n)); }},
      {"range from", [&](int64_t n) { return first(Dataset::range(n, kLargest, 7)); }},
      {"range by", [&](int64_t n) { return first(Dataset::range(kLeast, kLargest, n)); }},
      {"batch", [&](int64_t n) { return first(Dataset::range(5).batch(n)); }},
      {"batch of rows",
       [&](int64_t n) {
         return first(Dataset::from_tensor_slices(zeros({5, 2})).batch(n));
       }},
      {"batch of made ones",
       [&](int64_t n) { return first(Dataset::from_generator(one).batch(n)); }},
      {"batches of batches", [&](int64_t n) { return first(Dataset::range(5).batch(n).batch(n)); }},
      {"shuffle", [&](int64_t n) { return first(Dataset::range(5).shuffle(n)); }},
      {"shuffle made ones",
       [&](int64_t n) { return first(Dataset::from_generator(one).shuffle(n)); }},
      {"repeat", [&](int64_t n) { return first(Dataset::range(5).repeat(n).skip(n)); }},
      {"take", [&](int64_t n) { return first(Dataset::range(kLargest).take(n).batch(2)); }},
      {"skip", [&](int64_t n) { return first(Dataset::range(kLargest).skip(n)); }},
      {"shard", [&](int64_t n) { return first(Dataset::range(kLargest).shard(n, 1)); }},
      {"prefetch", [&](int64_t n) { return first(Dataset::from_generator(one).prefetch(n)); }},
  };
  for (const auto& [name, make] : functions) {
    for (int64_t size : kSizes) {
      const std::string call = std::string(name) + " of " + std::to_string(size);
      expect_error_or_result(call, [&, &make = make] { make(size); });
    }
  }
}

TEST_F(Sizes, OfRangesOfAnyNumbers) {
  const std::vector<double> numbers = {-kInf, -1.7e308, -1e18,   -1,   0,   1e-300,
                                       1,     1e18,     1.7e308, kInf, kNan};
  for (double start : numbers) {
    for (double limit : numbers) {
      for (double delta : numbers) {
        for (DType dtype : {DType::float32, DType::int64, DType::uint8}) {
          expect_error_or_result(
              "range", [&] { EXPECT_LT(range(start, limit, delta, dtype).shape()[0], 1 << 20); });
        }
      }
    }
  }
}

TEST_F(Sizes, TooManyElementsAreRefusedByName) {
  constexpr int64_t k32 = int64_t{1} << 32;
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        zeros({k32, k32});
      },
      {"[4294967296,4294967296]", "2^58"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        one_hot(Tensor::of({0, 1}), int64_t{1} << 60);
      },
      {"[2,1152921504606846976]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { range(0, 1e18); }, {"[1000000000000000000]"}));
  EXPECT_TRUE(throws<InvalidArgument>([] { tile(zeros({3}), {kLargest}); }, {"too large"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        pad(zeros({3}), {{kLargest, kLargest}});
      },
      {"too large"}));
}

TEST_F(Sizes, WhatDoesNotFitNamesBytesAndDevice) {
  for (const auto& make : std::vector<std::function<Tensor()>>{
           [] { return zeros({int64_t{1} << 57}); },
           [] { return range(0, 0x1p57); },
           [] { return one_hot(Tensor::of({0}), int64_t{1} << 57); },
           [] { return function([] { return zeros({int64_t{1} << 57}) + 1; })(); },
       }) {
    EXPECT_TRUE(throws<ResourceExhausted>(make, {"/device:CPU:0", "bytes requested"}));
  }
}

TEST(SizesWithoutLimit, NoMachineHasThatMuch) {
  EXPECT_TRUE(throws<ResourceExhausted>([] { zeros({int64_t{1} << 57}, DType::float64); },
                                        {"/device:CPU:0", "1152921504606846976 bytes"}));
}

/// Together they have more bytes than there are numbers for.
TEST_F(Sizes, OfAllTensorsInAProgramAreAddedUp) {
  const auto f = function([] {
    Tensors all;
    for (int i = 0; i < 40; ++i) {
      all.push_back(cumsum(fill({int64_t{1} << 57}, i, DType::float64)));
    }
    Tensor sum = all[0];
    for (const Tensor& tensor : all) sum = sum * reduce_max(tensor);
    return sum;
  });
  EXPECT_TRUE(throws<ResourceExhausted>([&] { f(); }, {"/device:CPU:0", "bytes requested"}));
}

}  // namespace
}  // namespace tandem::harness
