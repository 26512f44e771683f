// Kernels for GPUs that move elements, compared with those of the CPU: sizes around those of groups
// and tiles, every dtype, both forms.
#include <gtest/gtest.h>

#include "device/logical_device.h"
#include "harness/gpu_check.h"
#include "harness/op_check.h"
#include "harness/opencl.h"
#include "harness/throws.h"
#include "op/apply.h"
#include "op/registry.h"

namespace tandem {
namespace {

using harness::check_on_gpu;
using harness::GpuCase;
using harness::scattered;
using Cases = std::vector<GpuCase>;

const std::vector<DType> kDtypes = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                                    DType::uint8,   DType::int32,   DType::int64,   DType::boolean,
                                    DType::int8,    DType::int16,   DType::uint16,  DType::uint32,
                                    DType::uint64};

GpuCase unary(const std::string& name, const Tensor& x, std::function<Tensor(const Tensor&)> f) {
  return {name, {x}, [f = std::move(f)](const Tensors& t) { return Tensors{f(t[0])}; }};
}

GpuCase transposition(DType dtype, const Shape& shape, std::vector<int> order) {
  return unary("transpose " + shape.str(), scattered(dtype, shape),
               [order](const Tensor& x) { return transpose(x, order); });
}

Tensor indices_of(int64_t count, int64_t below, DType dtype = DType::int64) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(i * i * 7919 % below);
  const Tensor wide = Tensor::from(indices, Shape{count});
  return dtype == DType::int64 ? wide : cast(wide, dtype);
}

Tensor scatter_add(const Tensor& values, const Tensor& indices, const Shape& shape, int64_t axis) {
  return op::apply_one(op::find_op("scatter_add_rows"), {values, indices},
                       {{"shape", shape}, {"axis", axis}});
}

TEST(GpuShaping, TransposesOfEverySize) {
  Cases cases;
  for (const int64_t rows : {0, 1, 3, 31, 32, 33, 257, 1000}) {
    for (const int64_t columns : {1, 3, 32, 255, 256}) {
      cases.push_back(transposition(DType::float32, {rows, columns}, {1, 0}));
    }
  }
  cases.push_back(transposition(DType::float32, {3, 40, 50}, {0, 2, 1}));
  cases.push_back(transposition(DType::float32, {33, 5, 65}, {2, 1, 0}));
  cases.push_back(transposition(DType::float32, {4, 17, 6, 9}, {0, 2, 1, 3}));
  cases.push_back(transposition(DType::float32, {4, 17, 6, 9}, {3, 1, 2, 0}));
  cases.push_back(transposition(DType::float32, {2, 3, 2, 3, 2, 3}, {5, 3, 1, 4, 2, 0}));
  cases.push_back(transposition(DType::float32, {2, 10, 2, 3, 2, 9}, {5, 3, 4, 2, 0, 1}));
  check_on_gpu(cases);
}

/// The texts of a form differ by nothing but the size of a word; the other tests have both forms.
TEST(GpuShaping, EveryDtypeIsMoved) {
  Cases cases;
  for (const DType dtype : kDtypes) {
    const std::string name(name_of(dtype));
    const Tensor x = scattered(dtype, {37, 41});
    cases.push_back(transposition(dtype, {37, 41}, {1, 0}));
    cases.push_back(unary(name + " strided_slice", x, [](const Tensor& t) {
      return strided_slice(t, {{.step = -3}, {.begin = 2, .step = 2}});
    }));
    cases.push_back(unary(name + " pad", x, [](const Tensor& t) {
      return pad(t, {{1, 2}, {3, 0}}, {.value = 1});
    }));
    cases.push_back({name + " concat", {x, scattered(dtype, {37, 5}, 2)}, [](const Tensors& t) {
                       return Tensors{concat(t, 1), concat({t[0], t[0]}, 0)};
                     }});
    cases.push_back({name + " gather", {x, indices_of(50, 37)}, [](const Tensors& t) {
                       return Tensors{gather(t[0], t[1])};
                     }});
    cases.push_back({name + " one_hot", {indices_of(30, 9, DType::int32)}, [=](const Tensors& t) {
                       return Tensors{one_hot(t[0], 7, {.on = 1, .off = 0, .dtype = dtype})};
                     }});
  }
  check_on_gpu(cases, harness::expect_same_bytes, {harness::KernelForm::serial});
}

TEST(GpuShaping, SlicesAndTheirPlaces) {
  Cases cases;
  const auto add = [&](const Shape& shape, std::vector<Stride> strides) {
    cases.push_back(
        {"slice of " + shape.str(), {harness::spread(shape)}, [strides](const Tensors& t) {
           GradientTape tape;
           tape.watch(t[0]);
           const Tensor y = strided_slice(t[0], strides);
           // The gradient by y is y itself.
           return Tensors{y, tape.gradient(y, t, {.output_gradients = {y}})[0]};
         }});
  };
  add({1000}, {{.begin = 1, .end = 999}});
  add({1000}, {{.begin = 990, .end = 3, .step = -7}});
  add({257, 3}, {{.begin = 2, .step = 5}});
  add({3, 257}, {{}, {.begin = 255, .step = -1}});
  add({5, 256, 3}, {{.step = -2}, {.begin = 100}});
  add({4, 6, 5, 7}, {{.step = 2}, {.begin = 1, .step = 3}, {.step = -1}, {.end = 5}});
  add({2, 3, 4, 3, 2, 3}, {{}, {.begin = 1}, {.step = 2}, {.end = 2}, {.step = -1}, {.begin = 1}});
  add({6, 255}, {{.begin = 6}});
  add({}, {});
  cases.push_back(unary("pad of nothing", harness::spread({0, 3}), [](const Tensor& t) {
    return pad(t, {{2, 1}, {0, 1}}, {.value = 3});
  }));
  check_on_gpu(cases);
}

TEST(GpuShaping, TensorsAreJoined) {
  Cases cases;
  for (const int axis : {0, 1, 2}) {
    Tensors parts;
    for (const int64_t size : {3, 0, 1, 255, 17}) {
      parts.push_back(scattered(DType::float32, Shape{5, 4, 3}.with(axis, size), parts.size()));
    }
    cases.push_back({"along " + std::to_string(axis), parts, [axis](const Tensors& t) {
                       return Tensors{concat(t, axis), concat({t[1]}, axis)};
                     }});
  }
  check_on_gpu(cases);
}

TEST(GpuShaping, RowsAreGatheredAndAddedUpInOrder) {
  Cases cases;
  for (const auto& [rows, inner, count] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 257, 40}, {300, 7, 1000}, {1000, 1, 3000}, {7, 64, 257}, {5, 3, 0}}) {
    for (const int64_t axis : {0, 1}) {
      const Shape shape = axis == 0 ? Shape{rows, inner} : Shape{3, rows, inner};
      const Shape added = shape.with(static_cast<int>(axis), count);
      const DType dtype = axis == 0 ? DType::int64 : DType::int32;
      const Tensor values = harness::spread(added);
      cases.push_back({"rows of " + shape.str(),
                       {harness::spread(shape), indices_of(count, rows, dtype), values,
                        cast(values, DType::float32)},
                       [=](const Tensors& t) {
                         return Tensors{gather(t[0], t[1], static_cast<int>(axis)),
                                        scatter_add(t[2], t[1], shape, axis),
                                        scatter_add(t[3], t[1], shape, axis)};
                       }});
    }
  }
  check_on_gpu(cases);
}

TEST(GpuShaping, PlacesOutOfRangeAreNamed) {
  using harness::throws;
  for (const auto form : {harness::KernelForm::serial, harness::KernelForm::parallel}) {
    devices::reset_devices();
    harness::use_opencl(form);
    const DeviceScope scope = device("/device:GPU:0");
    const Tensor table = harness::spread({3, 2});
    const auto read = [](const Tensor& t) { return [t] { t.to_vector<double>(); }; };
    const Tensor bad = Tensor::from(std::vector<int64_t>{0, 3, -1000000000}, {3});
    EXPECT_TRUE(throws<InvalidArgument>(read(gather(table, bad)),
                                        {"gather: index ", "out of range for axis 0 of [3,2]"}));
    EXPECT_TRUE(throws<InvalidArgument>(read(scatter_add(harness::spread({3, 2}), bad, {3, 2}, 0)),
                                        {"scatter_add_rows: index ", "axis 0 of [3,2]"}));
    const Tensor many = Tensor::from(std::vector<int64_t>(100, 3), {100});
    EXPECT_TRUE(
        throws<InvalidArgument>(read(scatter_add(harness::spread({100, 2}), many, {3, 2}, 0)),
                                {"scatter_add_rows: index 3 is out of range for axis 0 of [3,2]"}));
  }
  devices::reset_devices();
}

}  // namespace
}  // namespace tandem
