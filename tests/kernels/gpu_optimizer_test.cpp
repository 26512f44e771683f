// Updates on a GPU, compared with the CPU's: every rule, shares of the work, steps and conditions
// in which nothing changes, faults.
#include <gtest/gtest.h>

#include <numeric>

#include "device/logical_device.h"
#include "harness/gpu_check.h"
#include "harness/op_check.h"
#include "harness/opencl.h"
#include "op/registry.h"
#include "op/update.h"
#include "ops/optimizer.h"
#include "tandem/tandem.h"
#include "tensor/body.h"

namespace tandem {
namespace {

using harness::KernelForm;
using harness::RawBytes;
using op::Signature;
using op::TensorType;
using op::TensorTypes;
using op::UpdateLayout;

/// More variables than a launch takes, of any size.
const std::vector<Shape> kShapes = {{37, 9}, {9}, {}, {0}, {130}, {1}, {257}, {3}, {2, 1000}, {5}};

struct Rule {
  const char* op;
  size_t slots;
  op::Attrs attrs;
};

std::vector<Rule> rules() {
  std::vector<Rule> all = {{"adagrad_update", 1, {{"epsilon", 1e-7}}},
                           {"accumulate_update", 0, {}}};
  for (const bool flag : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      const size_t moving = momentum == 0 ? 0 : 1;
      all.push_back({"sgd_update", moving, {{"momentum", momentum}, {"nesterov", flag}}});
      all.push_back({"rmsprop_update",
                     1 + moving + (flag ? 1 : 0),
                     {{"rho", 0.9}, {"momentum", momentum}, {"epsilon", 1.0}, {"centered", flag}}});
    }
    all.push_back({"adam_update",
                   flag ? size_t{3} : size_t{2},
                   {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}, {"amsgrad", flag}}});
  }
  return all;
}

Signature signature_of(const Rule& rule, DType dtype, int64_t every,
                       const std::vector<Shape>& shapes) {
  Signature s;
  s.op = &op::find_op(rule.op);
  s.attrs = rule.attrs.with("weight_decay", 0.1).with("every", every);
  TensorTypes gradients;
  for (const Shape& shape : shapes) {
    gradients.push_back({dtype, shape});
    s.ranges.insert(s.ranges.end(), rule.slots + 1, {dtype, shape});
  }
  s.inputs = UpdateLayout::inputs<TensorType>(gradients, {.rate = {DType::float64, {}},
                                                          .step = {DType::int64, {}},
                                                          .condition = {DType::boolean, {}}});
  return s;
}

Tensor values(const TensorType& type, uint64_t seed, bool positive) {
  const Tensor spread = harness::spread(type.shape, seed);
  return cast(positive ? spread * spread : spread, type.dtype);
}

/// The ranges of updates in the steps 0, 1, .., each in so many shares.
class Updates {
 public:
  explicit Updates(const Signature& signature) : signature_(signature), layout_(signature) {
    for (size_t i = 0; i < layout_.variables(); ++i) {
      inputs_.push_back(harness::bytes_of(values(signature.inputs[i], i + 1, false)));
    }
    for (size_t i = 0; i < signature.ranges.size(); ++i) {
      // Slots are positive, as averages of squares are.
      const bool is_slot = layout_.variable(layout_.owner(i)) != i;
      ranges_.push_back(harness::bytes_of(values(signature.ranges[i], i + 100, is_slot)));
    }
  }

  op::ExecutablePtr prepare(const std::string& device_name, int parts = 1) const {
    const auto on = devices::find_device(DeviceSpec::parse(device_name));
    return op::Registry::instance().prepare(signature_, *on, parts);
  }

  std::vector<RawBytes> run(const std::string& device_name, int steps, int parts,
                            bool condition) const {
    return run(device_name, steps, parts, condition, {.count = parts});
  }

  /// Some of the shares alone.
  std::vector<RawBytes> run(const std::string& device_name, int steps, int parts, bool condition,
                            const op::Parts& played) const {
    const DeviceScope scope = device(device_name);
    const auto on = devices::find_device(DeviceSpec::parse(device_name));
    const auto executable = prepare(device_name, parts);
    const auto there = [&](const Tensors& tensors) {
      Tensors copies;
      for (const Tensor& tensor : tensors) copies.push_back(copy_to_device(tensor, device_name));
      return copies;
    };
    const Tensors ranges = there(tensors_of(ranges_));
    for (int64_t step = 0; step < steps; ++step) {
      const Tensors inputs = there(UpdateLayout::inputs<Tensor>(
          tensors_of(inputs_), {.rate = Tensor::from(std::vector<double>{0.01}, {}),
                                .step = Tensor::from(std::vector<int64_t>{step}, {}),
                                .condition = Tensor::from(std::vector<bool>{condition}, {})}));
      std::vector<void*> slots;
      for (const Tensors* operands : {&inputs, &ranges}) {
        for (const Tensor& tensor : *operands) slots.push_back(tensor.body()->data());
      }
      std::vector<int> operands(slots.size());
      std::iota(operands.begin(), operands.end(), 0);
      op::Launch launch;
      launch.addresses = slots.data();
      launch.operands = operands.data();
      launch.inputs = static_cast<int>(inputs.size());
      launch.queue = &on->queue();
      launch.parts = parts;
      on->queue().submit([&] { executable->play(launch, played); });
      on->queue().record().wait(config::wait_deadline());
    }
    std::vector<RawBytes> results;
    for (const Tensor& range : ranges) results.push_back(harness::bytes_of(range));
    return results;
  }

 private:
  static Tensors tensors_of(const std::vector<RawBytes>& all) {
    Tensors tensors;
    for (const RawBytes& one : all) {
      tensors.push_back(Tensor::copy_of(one.data.data(), one.dtype, one.shape));
    }
    return tensors;
  }

  const Signature signature_;
  const UpdateLayout layout_;
  std::vector<RawBytes> inputs_;
  std::vector<RawBytes> ranges_;
};

TEST(GpuOptimizer, RulesAreTheCpus) {
  devices::reset_devices();
  std::vector<Updates> updates;
  std::vector<std::string> names;
  std::vector<std::vector<RawBytes>> wanted;
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Rule& rule : rules()) {
      if (dtype == DType::float64 && std::string(rule.op) == "rmsprop_update") continue;
      const Signature s = signature_of(rule, dtype, 2, kShapes);
      names.push_back(s.str());
      updates.emplace_back(s);
      wanted.push_back(updates.back().run("/device:CPU:0", 5, 1, true));
    }
  }
  const auto compare = harness::within(1e-6, 1e-14);
  for (const KernelForm form : {KernelForm::serial, KernelForm::parallel}) {
    devices::reset_devices();
    harness::use_opencl(form);
    // What is prepared before anything runs is compiled together.
    std::vector<size_t> checked;
    for (size_t i = 0; i < updates.size(); ++i) {
      // The forms share what is done to an element, but for Adam's rate.
      const bool is_adam = names[i].starts_with("adam") || names[i].starts_with("accumulate");
      if (form == KernelForm::serial || is_adam) checked.push_back(i);
    }
    for (const size_t i : checked) updates[i].prepare("/device:GPU:0");
    for (const size_t i : checked) {
      const auto got = updates[i].run("/device:GPU:0", 5, 1, true);
      const auto again = updates[i].run("/device:GPU:0", 5, 3, true);
      for (size_t k = 0; k < got.size(); ++k) {
        compare(got[k], wanted[i][k], names[i]);
        harness::expect_same_bytes(again[k], got[k], names[i] + " in three shares");
      }
    }
  }
  devices::reset_devices();
}

TEST(GpuOptimizer, NothingChangesWhereTheConditionIsFalse) {
  devices::reset_devices();
  harness::use_opencl(KernelForm::serial);
  for (const std::vector<Shape>& shapes : {kShapes, std::vector<Shape>{{1000}}}) {
    const Updates updates(signature_of(rules().back(), DType::float32, 1, shapes));
    const auto before = updates.run("/device:GPU:0", 0, 1, true);
    const auto after = updates.run("/device:GPU:0", 3, 1, false);
    const auto changed = updates.run("/device:GPU:0", 1, 1, true);
    for (size_t k = 0; k < before.size(); ++k) {
      harness::expect_same_bytes(after[k], before[k], "range");
    }
    EXPECT_NE(changed[0].data, before[0].data);
  }
  devices::reset_devices();
}

/// A share is a run of chunks, which may cut and span variables.
TEST(GpuOptimizer, AShareChangesWhatTheCpusShareChanges) {
  devices::reset_devices();
  const Updates updates(signature_of(rules()[0], DType::float64, 1, {{100}, {1}, {300}, {70}}));
  std::vector<std::vector<RawBytes>> wanted;
  constexpr int kShares = 3;
  for (int share = 0; share < kShares; ++share) {
    wanted.push_back(updates.run("/device:CPU:0", 1, kShares, true, {share, 1, 1}));
  }
  devices::reset_devices();
  harness::use_opencl(KernelForm::serial);
  for (int share = 0; share < kShares; ++share) {
    const auto got = updates.run("/device:GPU:0", 1, kShares, true, {share, 1, 1});
    for (size_t k = 0; k < got.size(); ++k) {
      harness::within(0, 1e-14)(got[k], wanted[static_cast<size_t>(share)][k], "range");
    }
  }
  devices::reset_devices();
}

/// A bad index anywhere in the step leaves the weights as they are.
TEST(GpuOptimizer, NothingChangesWhileAFaultStands) {
  for (const KernelForm form : {KernelForm::serial, KernelForm::parallel}) {
    devices::reset_devices();
    harness::use_opencl(form);
    const DeviceScope scope = device("/device:GPU:0");
    const Variable table(harness::spread({4, 3}));
    const auto wanted = table.value().to_vector<double>();
    const auto train = function([&](const Tensor& indices) {
      const Tensor rows = gather(table.value(), indices);
      ops::apply_update(
          {"sgd_update",
           {{"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}, {"every", int64_t{1}}}},
          {.gradients = {table.value()},
           .variables = {table},
           .rate = Tensor::from(std::vector<double>{0.5}, {}),
           .step = Tensor::from(std::vector<int64_t>{0}, {}),
           .condition = Tensor::from(std::vector<bool>{true}, {})});
      return rows;
    });
    const auto step = [&](int64_t index) {
      return train(Tensor::from(std::vector<int64_t>{index}, {1})).to_vector<double>();
    };
    EXPECT_THROW(step(4), InvalidArgument);
    EXPECT_EQ(table.value().to_vector<double>(), wanted);
    step(1);
    EXPECT_EQ(table.value().to_vector<double>()[0], wanted[0] * 0.5);
  }
  devices::reset_devices();
}

}  // namespace
}  // namespace tandem
