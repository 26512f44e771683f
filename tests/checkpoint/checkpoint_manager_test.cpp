#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "checkpoint/state_file.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::train {
namespace {

using harness::throws;
using Paths = std::vector<std::filesystem::path>;

class CheckpointManagerTest : public testing::Test {
 protected:
  Paths files() const {
    Paths names;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(file.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }

  harness::TempFolder folder_;
  Variable step_{Tensor(int64_t{0})};
  Checkpoint checkpoint_{NamedTrackables{{"step", step_}}};
};

TEST_F(CheckpointManagerTest, KeepsTheLastFewAndRemovesTheRest) {
  CheckpointManager manager(checkpoint_, folder_.path(), {.max_to_keep = 2});
  EXPECT_EQ(manager.latest_checkpoint(), std::nullopt);
  for (int i = 0; i < 4; ++i) manager.save();
  EXPECT_EQ(manager.checkpoints(), (Paths{folder_ / "ckpt-3", folder_ / "ckpt-4"}));
  EXPECT_EQ(manager.latest_checkpoint(), folder_ / "ckpt-4");
  EXPECT_EQ(files(), (Paths{"checkpoint", "ckpt-3.data-00000-of-00001", "ckpt-3.index",
                            "ckpt-4.data-00000-of-00001", "ckpt-4.index"}));
}

TEST_F(CheckpointManagerTest, ANewProcessGoesOnWhereTheLastStopped) {
  step_.assign(Tensor(int64_t{7}));
  CheckpointManager(checkpoint_, folder_.path()).save();
  const Variable step{Tensor(int64_t{0})};
  CheckpointManager next(Checkpoint({{"step", step}}), folder_.path());
  EXPECT_EQ(next.restore_or_initialize(), folder_ / "ckpt-1");
  EXPECT_EQ(step.value().item<int64_t>(), 7);
  EXPECT_EQ(next.save(), folder_ / "ckpt-2");
  EXPECT_EQ(next.checkpoints().size(), 2u);
}

TEST_F(CheckpointManagerTest, InAnEmptyFolderThereIsNothingToRestore) {
  const CheckpointManager manager(checkpoint_, folder_.path());
  EXPECT_EQ(manager.restore_or_initialize(), std::nullopt);
}

TEST_F(CheckpointManagerTest, WhatAKillLeftIsSweptAtTheNextSave) {
  CheckpointManager manager(checkpoint_, folder_.path(), {.max_to_keep = 2});
  manager.save();
  const std::vector<const char*> left = {"ckpt-9.data-00000-of-00001.partial",
                                         "ckpt-9.index.partial", "ckpt-7.data-00000-of-00001",
                                         "checkpoint.partial"};
  const std::vector<const char*> others = {"ckpt-best.data-00000-of-00001", "ckpt-.index.partial",
                                           "ckpt-9.txt.partial", "other-7.data-00000-of-00001"};
  for (const char* name : left) std::ofstream(folder_ / name) << "x";
  for (const char* name : others) std::ofstream(folder_ / name) << "x";
  manager.save();
  for (const char* name : left) EXPECT_FALSE(std::filesystem::exists(folder_ / name)) << name;
  for (const char* name : others) EXPECT_TRUE(std::filesystem::exists(folder_ / name)) << name;
  EXPECT_EQ(files().size(), 5 + others.size());
}

/// The list still has one while it is being removed.
TEST_F(CheckpointManagerTest, ARemovalThatAKillBrokeOffIsCompleted) {
  for (const bool index_is_gone : {false, true}) {
    CheckpointManager manager(checkpoint_, folder_.path(), {.max_to_keep = 2});
    for (int i = 0; i < 3; ++i) checkpoint_.save(folder_ / "ckpt");
    const auto kept = checkpoint::read_state(folder_.path());
    if (index_is_gone) std::filesystem::remove(kept[0].path.string() + ".index");
    CheckpointManager next(checkpoint_, folder_.path(), {.max_to_keep = 2});
    next.save();
    EXPECT_EQ(next.checkpoints().size(), 2u);
    EXPECT_EQ(files().size(), 5u) << testing::PrintToString(files());
  }
}

TEST_F(CheckpointManagerTest, OneThatCannotBeRemovedIsStillListed) {
  CheckpointManager manager(checkpoint_, folder_.path(), {.max_to_keep = 1});
  const auto first = manager.save();
  const std::string index = first.string() + ".index";
  std::filesystem::remove(index);
  std::filesystem::create_directory(index);
  EXPECT_TRUE(throws<Unavailable>([&] { manager.save(); }, {"ckpt-1.index", "cannot be removed"}));
  EXPECT_EQ(checkpoint::read_state(folder_.path())[0].path, first);
  std::filesystem::remove(index);
  manager.save();
  EXPECT_EQ(files(), (Paths{"checkpoint", "ckpt-2.data-00000-of-00001", "ckpt-2.index"}));
}

TEST_F(CheckpointManagerTest, OptionsAreChecked) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { CheckpointManager(checkpoint_, folder_.path(), {.max_to_keep = 0}); },
      {"max_to_keep is 0"}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { CheckpointManager(checkpoint_, folder_.path(), {.checkpoint_name = "a/b"}); },
      {"'a/b'"}));
}

TEST_F(CheckpointManagerTest, PathsWithQuotesAndOddCharactersAreFoundAgain) {
  const auto odd = folder_ / "a \"b\" \\ c\n\u00e9";
  CheckpointManager(checkpoint_, odd, {.checkpoint_name = "x\"y\\"}).save();
  EXPECT_EQ(latest_checkpoint(odd), odd / "x\"y\\-1");
}

TEST_F(CheckpointManagerTest, ADamagedListIsDataLossToReadersAndBegunAnewByTheNextSave) {
  checkpoint_.save(folder_ / "ckpt");
  for (const std::string text :
       {"", "model_checkpoint_path ckpt", "model_checkpoint_path: ckpt-1",
        "model_checkpoint_path: \"a\\", "all_model_checkpoint_paths: \"a\"",
        "model_checkpoint_path: \"\\q\""}) {
    std::ofstream(folder_ / "checkpoint") << text;
    EXPECT_TRUE(throws<DataLoss>([&] { latest_checkpoint(folder_.path()); },
                                 {(folder_ / "checkpoint").string(), "restore a checkpoint by"}))
        << text;
  }
  const logging::Sink former = logging::set_sink([](logging::Level, std::string_view) {});
  const auto path = checkpoint_.save(folder_ / "ckpt");
  logging::set_sink(former);
  EXPECT_EQ(latest_checkpoint(folder_.path()), path);
}

TEST_F(CheckpointManagerTest, AListThatNamesWhatIsGoneHasNoLatest) {
  const auto path = checkpoint_.save(folder_ / "ckpt");
  std::filesystem::remove(path.string() + ".index");
  EXPECT_EQ(latest_checkpoint(folder_.path()), std::nullopt);
}

}  // namespace
}  // namespace tandem::train
