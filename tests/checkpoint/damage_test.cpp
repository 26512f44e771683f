// Checkpoints that were truncated, changed or half-written.
#include <gtest/gtest.h>

#include <fstream>

#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::train {
namespace {

using harness::throws;
using Floats = std::vector<float>;

class DamageTest : public testing::Test {
 protected:
  DamageTest() {
    former_ = logging::set_sink([this](logging::Level, std::string_view line) { log_ += line; });
  }
  ~DamageTest() override { logging::set_sink(former_); }

  /// ckpt-1, ckpt-2, .. with each number as the variable's value.
  void save(int times) {
    for (int i = 0; i < times; ++i) {
      fill_with(static_cast<float>(checkpoint_.save_counter() + 1));
      checkpoint_.save(folder_ / "ckpt");
    }
    fill_with(-1);
  }
  void fill_with(float number) const { kernel_.assign(fill({1000}, number)); }
  float number() const { return kernel_.value().at<float>({999}); }

  std::string index(int n) const {
    return (folder_ / ("ckpt-" + std::to_string(n))).string() + ".index";
  }
  std::string data(int n) const {
    return (folder_ / ("ckpt-" + std::to_string(n))).string() + ".data-00000-of-00001";
  }

  static void flip(const std::string& path, int64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  }

  harness::TempFolder folder_;
  Variable kernel_{zeros({1000}), {.name = "kernel"}};
  Checkpoint checkpoint_{NamedTrackables{{"kernel", kernel_}}};
  std::string log_;
  logging::Sink former_;
};

TEST_F(DamageTest, AChangedBitIsNamedWithFileAndKeyAndChangesNothing) {
  save(1);
  flip(data(1), 2000);
  EXPECT_TRUE(throws<DataLoss>(
      [&] { checkpoint_.restore(folder_ / "ckpt-1"); },
      {"restore:", data(1), "key 'kernel/.ATTRIBUTES/VARIABLE_VALUE'", "checksum"}));
  EXPECT_EQ(number(), -1);
}

TEST_F(DamageTest, AChangedBitInAStringChangesNoVariableEither) {
  const Checkpoint both(
      {{"kernel", kernel_},
       {"position", HostState<std::string>{.save = [] { return std::string(100, 'p'); },
                                           .restore = [](const std::string&) { FAIL(); }}}});
  fill_with(5);
  both.save(folder_ / "ckpt");
  fill_with(-1);
  flip(data(1), 4050);  // Behind the 4000 bytes of the kernel.
  EXPECT_TRUE(throws<DataLoss>([&] { both.restore(folder_ / "ckpt-1"); },
                               {data(1), "key 'position/.ATTRIBUTES/py_state'", "checksum"}));
  EXPECT_EQ(number(), -1);
}

TEST_F(DamageTest, ATruncatedFileIsNamedWithTheKey) {
  save(1);
  std::filesystem::resize_file(data(1), 100);
  EXPECT_TRUE(throws<DataLoss>([&] { checkpoint_.restore(folder_ / "ckpt-1"); },
                               {data(1), "key", "the file has only 100"}));
  std::filesystem::resize_file(index(1), 100);
  EXPECT_TRUE(throws<DataLoss>([&] { checkpoint_.restore(folder_ / "ckpt-1"); }, {index(1)}));
  EXPECT_EQ(number(), -1);
}

TEST_F(DamageTest, HalfOfACheckpointIsDataLoss) {
  save(2);
  std::filesystem::remove(index(1));
  EXPECT_TRUE(throws<DataLoss>([&] { checkpoint_.restore(folder_ / "ckpt-1"); },
                               {index(1), "never completed"}));
  std::filesystem::remove(data(2));
  EXPECT_TRUE(
      throws<DataLoss>([&] { checkpoint_.restore(folder_ / "ckpt-2"); }, {data(2), index(2)}));
}

TEST_F(DamageTest, RestoreFallsBackWhenAskedAndSaysSo) {
  save(4);
  flip(data(4), 10);
  std::filesystem::resize_file(index(3), 20);
  const auto status = checkpoint_.restore(latest_checkpoint(folder_.path()), {.fall_back = true});
  EXPECT_EQ(status.path(), folder_ / "ckpt-2");
  EXPECT_EQ(number(), 2);
  EXPECT_NE(log_.find(data(4)), std::string::npos) << log_;
  EXPECT_NE(log_.find("falling back to " + (folder_ / "ckpt-2").string()), std::string::npos);
}

TEST_F(DamageTest, WhenAllAreDamagedTheLastErrorIsThrown) {
  save(2);
  flip(data(1), 10);
  flip(data(2), 10);
  EXPECT_TRUE(throws<DataLoss>(
      [&] { checkpoint_.restore(folder_ / "ckpt-2", {.fall_back = true}); }, {data(1)}));
}

TEST_F(DamageTest, AManagerFallsBackByItself) {
  save(2);
  flip(data(2), 10);
  const CheckpointManager manager(checkpoint_, folder_.path());
  EXPECT_EQ(manager.restore_or_initialize(), folder_ / "ckpt-1");
  EXPECT_EQ(number(), 1);
}

TEST_F(DamageTest, AFailedSaveLeavesNoFiles) {
  const Checkpoint failing(
      {{"state", HostState<int64_t>{.save = []() -> int64_t { throw Unavailable("no position"); },
                                    .restore = [](int64_t) {}}}});
  EXPECT_TRUE(throws<Unavailable>([&] { failing.save(folder_ / "ckpt"); }, {"no position"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(DamageTest, WhatAKilledSaveLeftIsNoCheckpointAndIsReplaced) {
  save(1);
  std::ofstream((folder_ / "ckpt-2").string() + ".data-00000-of-00001.partial") << "half";
  EXPECT_EQ(latest_checkpoint(folder_.path()), folder_ / "ckpt-1");
  save(1);
  EXPECT_FALSE(std::filesystem::exists(data(2) + ".partial"));
  checkpoint_.restore(latest_checkpoint(folder_.path()));
  EXPECT_EQ(number(), 2);
}

}  // namespace
}  // namespace tandem::train
