// Files that TensorFlow wrote: see tests/fixtures/make_tensorflow_checkpoints.py.
#include <gtest/gtest.h>

#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::train {
namespace {

using harness::throws;
using Floats = std::vector<float>;

const std::filesystem::path kFolder =
    std::filesystem::path(TANDEM_FIXTURES_DIR) / "tensorflow_checkpoints";

std::string key(const std::string& path) { return path + "/.ATTRIBUTES/VARIABLE_VALUE"; }

TEST(TensorFlowCheckpoint, TensorsOfEveryTypeAreRead) {
  const CheckpointReader reader = load_checkpoint(kFolder / "objects");  // The latest.
  EXPECT_EQ(reader.tensor(key("step")).item<int64_t>(), 43);
  EXPECT_EQ(reader.tensor(key("layer/kernel")).to_vector<float>(),
            (Floats{0, 0.25, 0.5, 0.75, 1, 1.25}));
  EXPECT_EQ(reader.shape(key("layer/kernel")), (Shape{2, 3}));
  EXPECT_EQ(reader.shape(key("empty")), (Shape{0, 4}));
  for (const std::string name : {"float16", "float32", "float64", "bfloat16", "int8", "int16",
                                 "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"}) {
    const Tensor tensor = reader.tensor(key("types/" + name));
    EXPECT_EQ(name_of(tensor.dtype()), name);
    EXPECT_EQ(cast(tensor, DType::float32).to_vector<float>(),
              (Floats{1, 0, name == "bool" ? 1.f : 3.f}))
        << name;
  }
  EXPECT_EQ(reader.bytes("position/.ATTRIBUTES/py_state"), std::string("row 17\0of 60000", 15));
  EXPECT_EQ(reader.tensor(key("a.Sb..c")).item<float>(), 2.5f);
  EXPECT_TRUE(throws<Unimplemented>([&] { reader.tensor(key("unknown")); }, {"unknown", "type 8"}));
}

TEST(TensorFlowCheckpoint, PartitionedVariablesAreRead) {
  const CheckpointReader reader = load_checkpoint(kFolder / "slices/model");
  EXPECT_EQ(reader.keys(), std::vector<std::string>{"table"});
  const Floats values = reader.tensor("table").to_vector<float>();
  ASSERT_EQ(values.size(), 350u);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i));
}

TEST(TensorFlowCheckpoint, ObjectsAreRestored) {
  const Variable kernel(zeros({2, 3}));
  const Variable bias(zeros({3}));
  const Variable step{Tensor(int64_t{0})};
  const Trackable layer;
  layer.track("kernel", kernel);
  layer.track("bias", bias);
  const Trackable layers;
  layers.track("0", layer);
  const Variable odd(Tensor(0.f));
  std::string position;
  const Trackable root;
  root.track("layers", layers);
  root.track("a/b.c", odd);
  root.track("step", step);
  root.track("position",
             HostState<std::string>{.save = [&] { return position; },
                                    .restore = [&](const std::string& p) { position = p; }});
  const Checkpoint checkpoint(root);
  const auto status = checkpoint.restore(latest_checkpoint(kFolder / "objects"));
  status.assert_existing_objects_matched();
  EXPECT_EQ(kernel.value().to_vector<float>(), (Floats{0, 0.25, 0.5, 0.75, 1, 1.25}));
  EXPECT_EQ(bias.value().to_vector<float>(), (Floats{1, -2, 3}));
  EXPECT_EQ(odd.value().item<float>(), 2.5f);
  EXPECT_EQ(step.value().item<int64_t>(), 43);
  EXPECT_EQ(position, std::string("row 17\0of 60000", 15));
  EXPECT_EQ(checkpoint.save_counter(), 3);
  EXPECT_TRUE(throws<FailedPrecondition>([&] { status.assert_consumed(); },
                                         {"empty", "types/float16", "unknown"}));
}

TEST(TensorFlowCheckpoint, AManagersFolderIsTakenOver) {
  const harness::TempFolder folder;
  std::filesystem::copy(kFolder / "objects", folder.path(),
                        std::filesystem::copy_options::recursive);
  const Variable step{Tensor(int64_t{0})};
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path(), {.max_to_keep = 2});
  EXPECT_EQ(manager.checkpoints(),
            (std::vector<std::filesystem::path>{folder / "ckpt-2", folder / "ckpt-3"}));
  EXPECT_EQ(manager.restore_or_initialize(), folder / "ckpt-3");
  EXPECT_EQ(step.value().item<int64_t>(), 43);
  EXPECT_EQ(manager.save(), folder / "ckpt-4");
  EXPECT_EQ(manager.checkpoints(),
            (std::vector<std::filesystem::path>{folder / "ckpt-3", folder / "ckpt-4"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt-2.index"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ckpt-2.data-00000-of-00001"));
}

TEST(TensorFlowCheckpoint, OneByNameIsReadButNotRestored) {
  const CheckpointReader reader = load_checkpoint(kFolder / "names" / "model");
  EXPECT_EQ(reader.keys(), (std::vector<std::string>{"weights"}));
  EXPECT_EQ(reader.tensor("weights").to_vector<float>(), (Floats{1, 2}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Checkpoint({{"weights", Variable(zeros({2}))}}).restore(kFolder / "names" / "model");
      },
      {"not made of objects", "load_checkpoint"}));
}

}  // namespace
}  // namespace tandem::train
