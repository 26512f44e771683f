// What tests of ops cannot see of the CPU's kernels: that they compute the same on every
// instruction set, and that a thread keeps to its part.
#include <gtest/gtest.h>
#include <hwy/aligned_allocator.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

#include "device/logical_device.h"
#include "op/registry.h"
#include "op/update.h"

namespace tandem {
namespace {

using op::Attrs;
using op::TensorType;
using op::TensorTypes;
using op::UpdateLayout;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Case {
  const char* op;
  TensorTypes inputs;
  Attrs attrs{};
  TensorTypes ranges{};
};

std::ostream& operator<<(std::ostream& out, const Case& test) {
  out << test.op;
  for (const TensorType& input : test.inputs) out << "_" << input.str();
  return out << "_" << test.attrs.str();
}

Case reduce(DType dtype, const Shape& shape, std::vector<int64_t> axes) {
  return {"reduce",
          {{dtype, shape}},
          {{"axes", std::move(axes)},
           {"keepdims", false},
           {"scale", int64_t{1}},
           {"divisor", int64_t{0}}}};
}

Case fold(const char* op, DType dtype, const Shape& shape, std::vector<int64_t> axes) {
  return {op, {{dtype, shape}}, {{"axes", std::move(axes)}, {"keepdims", false}}};
}

/// Inputs so large that the threads share them and meet.
std::vector<Case> cases_that_meet() {
  std::vector<Case> cases;
  for (DType dtype : {DType::float32, DType::float64}) {
    cases.push_back(reduce(dtype, {70001}, {0}));
    cases.push_back(reduce(dtype, {7001, 10}, {0}));
    cases.push_back(reduce(dtype, {101, 5, 131}, {0, 1}));
    cases.push_back(reduce(dtype, {101, 5, 131}, {0, 2}));
    cases.push_back(fold("reduce_max", dtype, {7001, 10}, {0}));
    cases.push_back(fold("reduce_min", dtype, {70001}, {0}));
  }
  return cases;
}

Case update(const char* op, DType dtype, size_t slots, const Attrs& attrs) {
  const std::vector<Shape> shapes = {{37, 9}, {9}, {}, {0}, {130}, {1}};
  Case test{op, {}, attrs.with("weight_decay", 0.1).with("every", int64_t{1})};
  TensorTypes gradients;
  for (const Shape& shape : shapes) {
    gradients.push_back({dtype, shape});
    test.ranges.insert(test.ranges.end(), slots + 1, {dtype, shape});
  }
  test.inputs = UpdateLayout::inputs<TensorType>(gradients, {.rate = {DType::float64, {}},
                                                             .step = {DType::int64, {}},
                                                             .condition = {DType::boolean, {}}});
  return test;
}

/// Every way of every optimizer.
std::vector<Case> updates(DType dtype) {
  std::vector<Case> cases = {update("adagrad_update", dtype, 1, {{"epsilon", 1e-7}}),
                             update("accumulate_update", dtype, 0, {})};
  for (const bool flag : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      const size_t moving = momentum == 0 ? 0 : 1;
      cases.push_back(
          update("sgd_update", dtype, moving, {{"momentum", momentum}, {"nesterov", flag}}));
      cases.push_back(
          update("rmsprop_update", dtype, 1 + moving + (flag ? 1 : 0),
                 {{"rho", 0.9}, {"momentum", momentum}, {"epsilon", 1.0}, {"centered", flag}}));
    }
    cases.push_back(
        update("adam_update", dtype, flag ? 3 : 2,
               {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}, {"amsgrad", flag}}));
  }
  return cases;
}

std::vector<Case> cases_split_by_rows() {
  std::vector<Case> cases;
  for (DType dtype : {DType::float32, DType::float64}) {
    const auto of = [dtype](const Shape& shape) { return TensorType{dtype, shape}; };
    for (const char* op : {"add",          "sub",
                           "mul",          "div",
                           "floor_div",    "mod",
                           "pow",          "maximum",
                           "minimum",      "squared_difference",
                           "less",         "not_equal",
                           "relu_grad",    "relu6_grad",
                           "gelu_grad",    "gelu_tanh_grad",
                           "silu_grad",    "softplus_grad",
                           "sigmoid_grad", "tanh_grad"}) {
      cases.push_back({op, {of({7, 37}), of({7, 37})}});
      cases.push_back({op, {of({7, 37}), of({37})}});
      cases.push_back({op, {of({7, 1}), of({7, 37})}});
      cases.push_back({op, {of({4, 1, 5}), of({2, 1, 3, 1})}});
    }
    for (const char* op :
         {"neg",  "abs",   "sign", "square", "reciprocal", "sqrt",     "rsqrt",     "floor",
          "ceil", "round", "exp",  "expm1",  "log",        "log1p",    "sin",       "cos",
          "tan",  "asin",  "acos", "atan",   "sinh",       "cosh",     "tanh",      "erf",
          "relu", "relu6", "gelu", "silu",   "sigmoid",    "softplus", "gelu_tanh", "is_nan"}) {
      cases.push_back({op, {of({7, 37})}});
    }
    for (const char* op : {"leaky_relu", "elu"}) {
      cases.push_back({op, {of({7, 37})}, {{"alpha", 0.3}}});
      cases.push_back({std::string(op) == "elu" ? "elu_grad" : "leaky_relu_grad",
                       {of({7, 37}), of({7, 37})},
                       {{"alpha", 0.3}}});
    }
    cases.push_back({"clip", {of({7, 37})}, {{"low", -0.2}, {"high", 0.3}}});
    cases.push_back({"clip_grad", {of({7, 37}), of({37})}, {{"low", -0.2}, {"high", 0.3}}});
    cases.push_back({"where", {{DType::boolean, {7, 37}}, of({7, 37}), of({37})}});
    cases.push_back({"where", {{DType::boolean, {37}}, of({7, 1}), of({7, 37})}});
    for (const bool one : {false, true}) {
      const op::Attrs attrs{{"labels_sum_to_one", one}};
      cases.push_back({"softmax_cross_entropy", {of({7, 10}), of({7, 10})}, attrs});
      cases.push_back({"softmax_cross_entropy", {of({5, 67}), of({5, 67})}, attrs});
    }
    cases.push_back(reduce(dtype, {64, 10}, {0}));
    cases.push_back(reduce(dtype, {300, 75}, {0}));
    cases.push_back(reduce(dtype, {7, 75}, {1}));
    cases.push_back(reduce(dtype, {9, 613}, {0, 1}));
    cases.push_back(reduce(dtype, {5, 6, 7, 8}, {0, 2}));
    cases.push_back(reduce(dtype, {5, 6, 7, 8}, {1, 3}));
    for (const char* op : {"reduce_max", "reduce_min", "reduce_prod"}) {
      cases.push_back(fold(op, dtype, {64, 10}, {0}));
      cases.push_back(fold(op, dtype, {7, 75}, {1}));
      cases.push_back(fold(op, dtype, {5, 6, 7, 8}, {0, 2}));
      cases.push_back(fold(op, dtype, {5, 6, 7, 8}, {1, 3}));
    }
    const auto axis = [](int64_t value) { return Attrs{{"axis", value}}; };
    cases.push_back({"concat", {of({7, 3}), of({7, 5})}, axis(1)});
    cases.push_back({"concat", {of({7, 3}), of({2, 3})}, axis(0)});
    cases.push_back(
        {"cumsum", {of({7, 5})}, {{"axis", int64_t{1}}, {"exclusive", false}, {"reverse", true}}});
    for (const std::vector<int64_t>& permutation :
         {std::vector<int64_t>{0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}}) {
      cases.push_back({"transpose", {of({7, 37, 40})}, {{"permutation", permutation}}});
    }
    const std::vector<int64_t> begin = {0, 2}, step = {1, 3};
    cases.push_back({"strided_slice",
                     {of({7, 37})},
                     {{"begin", begin}, {"step", step}, {"shape", Shape{7, 11}}}});
    cases.push_back({"place",
                     {of({7, 11})},
                     {{"begin", begin}, {"step", step}, {"shape", Shape{7, 37}}, {"value", 2.0}}});
  }
  return cases;
}

using Bytes = std::vector<char>;

/// Values of all operands, written as numbers and seen by kernels as bytes.
class Operand {
 public:
  explicit Operand(const TensorType& type)
      : type_(type), bytes_(static_cast<size_t>(type.shape.count()) * size_of(type.dtype)) {}

  int64_t count() const { return type_.shape.count(); }
  void* data() { return bytes_.data(); }

  double at(int64_t i) const {
    const auto index = static_cast<size_t>(i);
    switch (type_.dtype) {
      case DType::float32:
        return reinterpret_cast<const float*>(bytes_.data())[index];
      case DType::float64:
        return reinterpret_cast<const double*>(bytes_.data())[index];
      case DType::boolean:
        return bytes_[index];
      default:
        return static_cast<double>(reinterpret_cast<const int64_t*>(bytes_.data())[index]);
    }
  }
  void set(int64_t i, double value) {
    const auto index = static_cast<size_t>(i);
    switch (type_.dtype) {
      case DType::float32:
        reinterpret_cast<float*>(bytes_.data())[index] = static_cast<float>(value);
        break;
      case DType::float64:
        reinterpret_cast<double*>(bytes_.data())[index] = value;
        break;
      case DType::boolean:
        bytes_[index] = value > 0 ? 1 : 0;
        break;
      default:
        reinterpret_cast<int64_t*>(bytes_.data())[index] = static_cast<int64_t>(value);
    }
  }

 private:
  TensorType type_;
  Bytes bytes_;
};

class HandRun {
 public:
  explicit HandRun(const Case& test)
      : signature_{&op::find_op(test.op), test.inputs, {}, test.attrs, test.ranges} {
    signature_.outputs = signature_.op->infer(signature_);
    for (const TensorTypes* types : {&signature_.inputs, &signature_.outputs, &signature_.ranges}) {
      for (const TensorType& type : *types) operands_.emplace_back(type);
    }
    // Positive, as squares averaged by an optimizer are, with inputs of both signs.
    for (size_t k = 0; k < operands_.size(); ++k) {
      const double shift = k < signature_.inputs.size() ? 0.5 : 0;
      for (int64_t i = 0; i < operands_[k].count(); ++i) {
        operands_[k].set(
            i, std::fmod(0.37 * static_cast<double>(i + 3) + 0.61 * static_cast<double>(k), 1.0) -
                   shift);
      }
    }
    if (signature_.op->is_update) operands_[UpdateLayout(signature_).condition()].set(0, 1);
  }

  const op::Signature& signature() const { return signature_; }
  std::vector<Operand>& operands() { return operands_; }
  const std::vector<Operand>& operands() const { return operands_; }
  op::Split split() const { return signature_.op->split(signature_); }

  void run(int parts) { run_parts(0, parts, parts); }
  void run_part(int part, int parts) { run_parts(part, part + 1, parts); }

 private:
  /// Parts [begin, end) of all, phase by phase.
  void run_parts(int begin, int end, int parts) {
    const auto executable =
        op::Registry::instance().prepare(signature_, *devices::host_device(), parts);
    std::vector<void*> addresses;
    std::vector<int> indices;
    for (Operand& operand : operands_) {
      indices.push_back(static_cast<int>(addresses.size()));
      addresses.push_back(operand.data());
    }
    const op::StepScalars step;
    const size_t stride = (executable->workspace_bytes() + 63) / 64 * 64;
    const auto workspaces = hwy::AllocateAligned<char>(stride * static_cast<size_t>(parts) + 1);
    for (int phase = 0; phase < executable->phases(); ++phase) {
      for (int part = begin; part < end; ++part) {
        executable->run({.addresses = addresses.data(),
                         .operands = indices.data(),
                         .inputs = static_cast<int>(signature_.inputs.size()),
                         .outputs = static_cast<int>(signature_.outputs.size()),
                         .workspaces = workspaces.get(),
                         .workspace_stride = stride,
                         .part = part,
                         .parts = parts,
                         .phase = phase,
                         .step = &step});
      }
    }
  }

  op::Signature signature_;
  std::vector<Operand> operands_;
};

class CpuKernels : public testing::TestWithParam<Case> {
 protected:
  ~CpuKernels() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(CpuKernels, EveryInstructionSetAndNumberOfPartsGivesTheSame) {
  HandRun expected(GetParam());
  expected.run(1);
  const bool is_float = expected.signature().inputs[0].dtype == DType::float32;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (int parts : {1, 2, 3, 11}) {
      HandRun run(GetParam());
      run.run(parts);
      for (size_t k = 0; k < run.operands().size(); ++k) {
        for (int64_t i = 0; i < run.operands()[k].count(); ++i) {
          const double value = expected.operands()[k].at(i);
          if (std::isnan(value) && std::isnan(run.operands()[k].at(i))) continue;
          if (std::isinf(value) && value == run.operands()[k].at(i)) continue;
          ASSERT_NEAR(run.operands()[k].at(i), value,
                      (is_float ? 2e-6 : 1e-14) * (1 + std::abs(value)))
              << hwy::TargetName(target) << ", " << parts << " parts, operand " << k << ", element "
              << i;
        }
      }
    }
  }
}

class RowSplitKernels : public CpuKernels {};

/// Other threads may still be writing the other rows of an aligned input.
TEST_P(RowSplitKernels, APartReadsAlignedInputsOnlyInItsOwnRows) {
  HandRun expected(GetParam());
  expected.run(1);
  const op::Split split = expected.split();
  constexpr int kParts = 3;
  for (int part = 0; part < kParts; ++part) {
    HandRun run(GetParam());
    const auto [begin, end] = op::part_of(split.extent, part, kParts);
    for (size_t k = 0; k < run.signature().inputs.size(); ++k) {
      if (!split.is_aligned(k)) continue;
      Operand& input = run.operands()[k];
      const int64_t per_row = input.count() / split.extent;
      for (int64_t i = 0; i < input.count(); ++i) {
        if (i < begin * per_row || i >= end * per_row) input.set(i, kNaN);
      }
    }
    run.run_part(part, kParts);
    for (size_t k = run.signature().inputs.size(); k < run.operands().size(); ++k) {
      const int64_t per_row = run.operands()[k].count() / split.extent;
      for (int64_t i = begin * per_row; i < end * per_row; ++i) {
        const double value = expected.operands()[k].at(i);
        if (std::isnan(value) || std::isinf(value)) continue;
        ASSERT_NEAR(run.operands()[k].at(i), value, 1e-6 * (1 + std::abs(value)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, CpuKernels, testing::ValuesIn(cases_split_by_rows()));
INSTANTIATE_TEST_SUITE_P(Meeting, CpuKernels, testing::ValuesIn(cases_that_meet()));
INSTANTIATE_TEST_SUITE_P(Rows, RowSplitKernels, testing::ValuesIn(cases_split_by_rows()));
INSTANTIATE_TEST_SUITE_P(Float32Updates, CpuKernels, testing::ValuesIn(updates(DType::float32)));
INSTANTIATE_TEST_SUITE_P(Float64Updates, CpuKernels, testing::ValuesIn(updates(DType::float64)));

class Updates : public testing::TestWithParam<Case> {};

TEST_P(Updates, APartReadsGradientsOnlyInItsOwnChunks) {
  constexpr int kParts = 3;
  for (int part = 0; part < kParts; ++part) {
    HandRun run(GetParam());
    const auto [begin, end] = op::part_of(run.split().extent, part, kParts);
    const size_t inputs = run.signature().inputs.size();
    int64_t position = 0;
    for (size_t k = 0; k < UpdateLayout(run.signature()).variables(); ++k) {
      for (int64_t i = 0; i < run.operands()[k].count(); ++i, ++position) {
        const int64_t chunk = position / op::Split::kChunk;
        if (chunk < begin || chunk >= end) run.operands()[k].set(i, kNaN);
      }
    }
    run.run_part(part, kParts);
    for (size_t k = inputs; k < run.operands().size(); ++k) {
      for (int64_t i = 0; i < run.operands()[k].count(); ++i) {
        ASSERT_FALSE(std::isnan(run.operands()[k].at(i))) << "operand " << k << ", element " << i;
      }
    }
  }
}

TEST_P(Updates, NothingChangesWhereTheConditionIsFalse) {
  const HandRun before(GetParam());
  HandRun run(GetParam());
  run.operands()[UpdateLayout(run.signature()).condition()].set(0, 0);
  run.run(1);
  for (size_t k = run.signature().inputs.size(); k < run.operands().size(); ++k) {
    for (int64_t i = 0; i < run.operands()[k].count(); ++i) {
      ASSERT_EQ(run.operands()[k].at(i), before.operands()[k].at(i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Updates, testing::ValuesIn(updates(DType::float32)));

}  // namespace
}  // namespace tandem
