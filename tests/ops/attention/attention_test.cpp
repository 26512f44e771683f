#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/op_check.h"
#include "harness/throws.h"

namespace tandem::harness {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  int64_t batch, queries, keys, heads, width, value_width;

  Shape query() const { return {batch, queries, heads, width}; }
  Shape key() const { return {batch, keys, heads, width}; }
  Shape value() const { return {batch, keys, heads, value_width}; }
  Shape result() const { return {batch, queries, heads, value_width}; }
  Tensors inputs() const { return {spread(query(), 1), spread(key(), 2), spread(value(), 3)}; }
};

/// What is added to the score of a batch entry, head, query and key.
using Bias = std::function<double(int64_t, int64_t, int64_t, int64_t)>;

Bias no_bias() {
  return [](auto...) { return 0.0; };
}

Bias causal() {
  return [](int64_t, int64_t, int64_t query, int64_t key) { return key <= query ? 0 : -kInfinity; };
}

std::vector<double> plain_attention(const Sizes& s, const Tensors& inputs, double scale,
                                    const Bias& bias) {
  const auto q = inputs[0].to_vector<double>();
  const auto k = inputs[1].to_vector<double>();
  const auto v = inputs[2].to_vector<double>();
  const auto at = [&](int64_t b, int64_t tokens, int64_t t, int64_t h, int64_t width, int64_t i) {
    return static_cast<size_t>(((b * tokens + t) * s.heads + h) * width + i);
  };
  std::vector<double> result(static_cast<size_t>(s.result().count()));
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.queries; ++i) {
        std::vector<double> scores(static_cast<size_t>(s.keys));
        double max = -kInfinity;
        for (int64_t j = 0; j < s.keys; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < s.width; ++c) {
            dot += q[at(b, s.queries, i, h, s.width, c)] * k[at(b, s.keys, j, h, s.width, c)];
          }
          scores[static_cast<size_t>(j)] = dot * scale + bias(b, h, i, j);
          max = std::max(max, scores[static_cast<size_t>(j)]);
        }
        if (max == -kInfinity) continue;
        double total = 0;
        for (double& score : scores) total += score = std::exp(score - max);
        for (int64_t j = 0; j < s.keys; ++j) {
          for (int64_t c = 0; c < s.value_width; ++c) {
            result[at(b, s.queries, i, h, s.value_width, c)] +=
                scores[static_cast<size_t>(j)] / total * v[at(b, s.keys, j, h, s.value_width, c)];
          }
        }
      }
    }
  }
  return result;
}

OpRow row_of(const std::string& name, const Sizes& s, bool is_causal) {
  const Tensors inputs = s.inputs();
  return {.name = name,
          .inputs = inputs,
          .f = [is_causal](
                   const Tensors& t) { return attention(t[0], t[1], t[2], {.causal = is_causal}); },
          .expected = plain_attention(s, inputs, 1 / std::sqrt(std::max(s.width, int64_t{1})),
                                      is_causal ? causal() : no_bias()),
          .shape = s.result()};
}

TEST(Attention, AllKeysAndThoseBefore) {
  const std::vector<Sizes> cases = {
      {2, 5, 5, 2, 3, 3}, {1, 7, 7, 3, 4, 4}, {3, 4, 6, 1, 2, 5}, {1, 6, 3, 2, 17, 1},
      {1, 1, 1, 1, 1, 1}, {0, 3, 3, 2, 4, 4}, {2, 0, 3, 2, 4, 4}, {2, 3, 0, 2, 4, 4},
      {2, 3, 3, 0, 4, 4}, {2, 3, 3, 2, 0, 4}, {2, 3, 3, 2, 4, 0},
  };
  for (const Sizes& s : cases) {
    for (const bool is_causal : {false, true}) {
      check_op(
          row_of((is_causal ? "causal " : "") + s.query().str() + s.key().str(), s, is_causal));
    }
  }
}

/// Several blocks of queries and of keys, the last ones not whole.
TEST(Attention, ManyTokens) {
  for (const Sizes& s :
       {Sizes{2, 133, 133, 1, 20, 20}, Sizes{1, 70, 300, 2, 8, 19}, Sizes{1, 300, 70, 2, 16, 8}}) {
    for (const bool is_causal : {false, true}) {
      OpRow row = row_of((is_causal ? "causal " : "") + s.query().str(), s, is_causal);
      row.differentiable = false;
      check_op(row);
    }
  }
}

/// The same gradients as those of ordinary ops.
Tensor composed(const Tensors& t, const Tensor& sees) {
  const auto swapped = [](const Tensor& x) { return transpose(x, {0, 2, 1, 3}); };
  const Tensor scores = matmul(swapped(t[0]), swapped(t[1]), {.transpose_b = true}) *
                        (1 / std::sqrt(static_cast<double>(t[0].shape()[3])));
  const Tensor p = softmax(where(sees, scores, scalar_like(-kInfinity, scores)));
  return swapped(matmul(p, swapped(t[2])));
}

TEST(Attention, GradientsOfManyTokens) {
  for (const Sizes& s :
       {Sizes{2, 133, 133, 2, 20, 20}, Sizes{1, 70, 300, 3, 8, 19}, Sizes{3, 150, 70, 1, 16, 8}}) {
    for (const bool is_causal : {false, true}) {
      std::vector<uint8_t> bytes;
      for (int64_t i = 0; i < s.queries; ++i) {
        for (int64_t j = 0; j < s.keys; ++j) bytes.push_back(!is_causal || j <= i);
      }
      const Tensor sees = cast(Tensor::from(bytes, {s.queries, s.keys}), DType::boolean);
      const Tensors inputs = s.inputs();
      const Tensor g = spread(s.result(), 4);
      for (size_t by = 0; by < 3; ++by) {
        const auto gradient = [&](const Tensors& t, const Tensor& weights, auto f) {
          GradientTape tape;
          tape.watch(t[by]);
          const Tensor y = f(t);
          return tape.gradient(y, t[by], {.output_gradients = {cast(weights, y.dtype())}});
        };
        const auto expected =
            gradient(inputs, g, [&](const Tensors& t) { return composed(t, sees); });
        const auto weights = g.to_vector<double>();
        check_op({.name = s.query().str() + " by " + std::to_string(by),
                  .inputs = inputs,
                  .f =
                      [&](const Tensors& t) {
                        return gradient(t, doubles(weights, s.result()), [&](const Tensors& x) {
                          return attention(x[0], x[1], x[2], {.causal = is_causal});
                        });
                      },
                  .expected = expected.to_vector<double>(),
                  .shape = inputs[by].shape(),
                  .differentiable = false,
                  .tolerance = 1e-11,
                  .float32_tolerance = 1e-4});
      }
    }
  }
}

TEST(Attention, ReplicasKeepTheirRows) {
  const Sizes s{6, 5, 5, 2, 4, 4};
  const Tensors inputs = s.inputs();
  check_op({.name = "rows",
            .inputs = {inputs[0], inputs[1]},
            .f = [](const Tensors& t) { return attention(t[0], t[1], t[1], {.causal = true}); },
            .expected = plain_attention(s, {inputs[0], inputs[1], inputs[1]}, 0.5, causal()),
            .shape = s.result(),
            .follows_rows = true});
}

TEST(Attention, AGivenScale) {
  const Sizes s{2, 3, 4, 2, 3, 3};
  for (const double scale : {-1.5, 0.0, 1.0}) {
    check_op(
        {.name = "scale " + std::to_string(scale),
         .inputs = s.inputs(),
         .f = [scale](const Tensors& t) { return attention(t[0], t[1], t[2], {.scale = scale}); },
         .expected = plain_attention(s, s.inputs(), scale, no_bias()),
         .shape = s.result()});
  }
}

/// The element of a mask that is broadcast to [batch, heads, queries, keys].
double broadcast_at(const std::vector<double>& mask, const Shape& shape,
                    const std::array<int64_t, 4>& position) {
  int64_t index = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t at = position[static_cast<size_t>(4 - shape.rank() + axis)];
    index = index * shape[axis] + (shape[axis] == 1 ? 0 : at);
  }
  return mask[static_cast<size_t>(index)];
}

const Sizes kMasked{2, 4, 3, 2, 3, 2};
const std::vector<Shape> kMasks = {{2, 2, 4, 3}, {2, 1, 1, 3}, {2, 4, 3}, {4, 3},
                                   {1, 4, 1},    {3},          {}};

TEST(Attention, AddedMasks) {
  for (const Shape& shape : kMasks) {
    const Tensor mask = spread(shape, 5);
    Tensors inputs = kMasked.inputs();
    inputs.push_back(mask);
    const auto values = mask.to_vector<double>();
    const Bias bias = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return broadcast_at(values, shape, {b, h, i, j}) + causal()(b, h, i, j);
    };
    check_op({.name = "mask " + shape.str(),
              .inputs = inputs,
              .f =
                  [](const Tensors& t) {
                    return attention(t[0], t[1], t[2], {.causal = true, .mask = t[3]});
                  },
              .expected = plain_attention(kMasked, inputs, 1 / std::sqrt(3.0), bias),
              .shape = kMasked.result()});
  }
}

TEST(Attention, BoolMasksWithQueriesThatSeeNothing) {
  for (const Shape& shape : kMasks) {
    std::vector<double> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 5 == 0 || (i >= 3 && i < 6) ? 0 : 1;
    Tensors inputs = kMasked.inputs();
    inputs.push_back(cast(doubles(values, shape), DType::boolean));
    const Bias bias = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return broadcast_at(values, shape, {b, h, i, j}) != 0 ? 0 : -kInfinity;
    };
    check_op({.name = "bool mask " + shape.str(),
              .inputs = inputs,
              .f = [](const Tensors& t) { return attention(t[0], t[1], t[2], {.mask = t[3]}); },
              .expected = plain_attention(kMasked, inputs, 1 / std::sqrt(3.0), bias),
              .shape = kMasked.result()});
  }
}

TEST(Attention, SecondDerivatives) {
  const Sizes s{2, 3, 4, 2, 2, 3};
  Tensors inputs = s.inputs();
  inputs.push_back(spread({2, 1, 3, 4}, 5));
  for (size_t by = 0; by < inputs.size(); ++by) {
    const auto gradient = [by](const Tensors& t) {
      GradientTape tape;
      tape.watch(t[by]);
      const Tensor y = attention(t[0], t[1], t[2], {.causal = true, .mask = t[3]});
      return tape.gradient(reduce_sum(y * y * y), Tensors{t[by]})[0];
    };
    Tensors plain = inputs;
    const auto cubes = [&] {
      const auto values = plain[3].to_vector<double>();
      const Bias bias = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
        return broadcast_at(values, {2, 1, 3, 4}, {b, h, i, j}) + causal()(b, h, i, j);
      };
      double sum = 0;
      for (const double y : plain_attention(s, plain, 1 / std::sqrt(2.0), bias)) sum += y * y * y;
      return sum;
    };
    std::vector<double> expected;
    auto values = inputs[by].to_vector<double>();
    for (double& value : values) {
      const double before = value;
      const auto moved = [&](double to) {
        value = to;
        plain[by] = doubles(values, inputs[by].shape());
        return cubes();
      };
      const double above = moved(before + 1e-5);
      expected.push_back((above - moved(before - 1e-5)) / 2e-5);
      value = before;
    }
    check_op({.name = "gradient by " + std::to_string(by),
              .inputs = inputs,
              .f = gradient,
              .expected = expected,
              .shape = inputs[by].shape(),
              .tolerance = 1e-7});
  }
}

TEST(Attention, LargeScoresDoNotOverflowAndNaNIsNotHidden) {
  const Sizes s{1, 3, 3, 1, 1, 1};
  const Tensors inputs{doubles({1e4, -1e4, 0}, s.query()), doubles({1e4, 2e4, -1e4}, s.key()),
                       doubles({1, 2, 3}, s.value())};
  check_op({.name = "large",
            .inputs = inputs,
            .f = [](const Tensors& t) { return attention(t[0], t[1], t[2]); },
            .expected = {2, 3, 2},
            .shape = s.result(),
            .differentiable = false});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_op({.name = "NaN",
            .inputs = {doubles({1, nan, 1}, s.query()), inputs[1], inputs[2]},
            .f = [](const Tensors& t) { return attention(t[0], t[1], t[2]); },
            .expected = {2, nan, 2},
            .shape = s.result(),
            .differentiable = false});
}

TEST(Attention, AMaskHidesNaN) {
  const Sizes s{1, 1, 2, 1, 1, 1};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  check_op({.name = "hidden",
            .inputs = {doubles({1}, s.query()), doubles({1, nan}, s.key()),
                       doubles({5, 7}, s.value()), cast(doubles({1, 0}, {2}), DType::boolean)},
            .f = [](const Tensors& t) { return attention(t[0], t[1], t[2], {.mask = t[3]}); },
            .expected = {5},
            .shape = s.result(),
            .differentiable = false});
}

/// [batch, tokens, 3, heads, width]
Shape joined_shape(const Sizes& s) { return {s.batch, s.queries, 3, s.heads, s.width}; }

TEST(SelfAttention, IsAttentionOfItsParts) {
  for (const Sizes& s :
       {Sizes{2, 5, 5, 2, 3, 3}, Sizes{1, 7, 7, 3, 17, 17}, Sizes{4, 2, 2, 1, 1, 1},
        Sizes{0, 3, 3, 2, 4, 4}, Sizes{2, 0, 0, 2, 4, 4}}) {
    const Tensor joined = spread(joined_shape(s), 1);
    for (const bool is_causal : {false, true}) {
      check_op({.name = (is_causal ? "causal " : "") + joined.shape().str(),
                .inputs = {joined},
                .f = [is_causal](
                         const Tensors& t) { return self_attention(t[0], {.causal = is_causal}); },
                .expected = plain_attention(s, unstack(joined, 2),
                                            1 / std::sqrt(static_cast<double>(s.width)),
                                            is_causal ? causal() : no_bias()),
                .shape = s.result(),
                .follows_rows = s.batch > 1});
    }
  }
}

TEST(SelfAttention, Masks) {
  const Sizes s{2, 3, 3, 2, 2, 2};
  const Tensor joined = spread(joined_shape(s), 1);
  const Tensor mask = spread({2, 1, 3, 3}, 5);
  const auto values = mask.to_vector<double>();
  const Bias bias = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return broadcast_at(values, {2, 1, 3, 3}, {b, h, i, j});
  };
  check_op({.name = "mask",
            .inputs = {joined, mask},
            .f = [](const Tensors& t) { return self_attention(t[0], {.mask = t[1]}); },
            .expected = plain_attention(s, unstack(joined, 2), 1 / std::sqrt(2.0), bias),
            .shape = s.result(),
            .follows_rows = true});
}

/// Those of attention are checked above.
TEST(SelfAttention, SecondDerivativesAreThoseOfAttention) {
  const Sizes s{2, 3, 3, 2, 2, 2};
  const Tensors inputs{spread(joined_shape(s), 1), spread({3, 3}, 5)};
  for (size_t by = 0; by < 2; ++by) {
    const auto gradient = [by](const Tensors& t, auto f) {
      GradientTape tape;
      tape.watch(t[by]);
      const Tensor y = f(t);
      return tape.gradient(reduce_sum(y * y * y), t[by]);
    };
    const auto expected = gradient(inputs, [&](const Tensors& t) {
      const Tensors parts = unstack(t[0], 2);
      return attention(parts[0], parts[1], parts[2], {.causal = true, .mask = t[1]});
    });
    check_op({.name = "gradient by " + std::to_string(by),
              .inputs = inputs,
              .f =
                  [&](const Tensors& x) {
                    return gradient(x, [](const Tensors& t) {
                      return self_attention(t[0], {.causal = true, .mask = t[1]});
                    });
                  },
              .expected = expected.to_vector<double>(),
              .shape = inputs[by].shape()});
  }
}

TEST(SelfAttention, ErrorsNameTheShape) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        self_attention(fill({2, 3, 4, 5}, 1));
      },
      {"self_attention: query, key and value must be [batch,tokens,3,heads,width], got "
       "[2,3,4,5]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        self_attention(fill({2, 4, 3, 1, 5}, 1), {.mask = fill({3, 4}, 0)});
      },
      {"self_attention: mask [3,4] does not broadcast to 2 batch entries, 1 heads, 4 queries and 4 "
       "keys"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        self_attention(fill({2, 4, 3, 1, 5}, 1, DType::int32));
      },
      {"self_attention: int32 is not supported; float32 and float64 are"}));
}

TEST(Attention, ErrorsNameTheShapes) {
  const auto call = [](const Shape& q, const Shape& k, const Shape& v, const Tensor& mask = {}) {
    return [=] { attention(fill(q, 1), fill(k, 1), fill(v, 1), {.mask = mask}); };
  };
  const Shape whole{2, 3, 4, 5};
  for (const Shape& other :
       {Shape{1, 3, 4, 5}, Shape{2, 3, 2, 5}, Shape{2, 3, 4, 6}, Shape{3, 4}}) {
    EXPECT_TRUE(throws<InvalidArgument>(
        call(whole, other, whole),
        {"attention: query, key and value must be", "[batch,keys,heads,width]",
         "got float32[2,3,4,5], float32" + other.str() + " and float32[2,3,4,5]"}));
  }
  EXPECT_TRUE(throws<InvalidArgument>(call(whole, whole, {2, 4, 4, 5}), {"float32[2,4,4,5]"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      call(whole, whole, whole, fill({3, 4}, 0)),
      {"attention: mask [3,4] does not broadcast to 2 batch entries, 4 heads, 3 queries and 3 "
       "keys"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      call(whole, whole, whole, fill({3, 3}, 0, DType::float64)),
      {"attention: the mask is float64; bool and the query's float32 are supported"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        const Tensor x = fill(whole, 1, DType::int32);
        attention(x, x, x);
      },
      {"attention: int32 is not supported; float32 and float64 are"}));
}

}  // namespace
}  // namespace tandem::harness
