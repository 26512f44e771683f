#include "kernels/cpu/gemm/provider_table.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/error.h"
#include "tandem/log.h"
#include "tandem/providers.h"

namespace tandem::kernels::cpu {
namespace {

using harness::throws;

class ProviderTableTest : public testing::Test {
 protected:
  void TearDown() override { providers::use_table(""); }

  std::string file(const std::string& text) const {
    const std::string path = folder_ / "table";
    std::ofstream(path) << text;
    return path;
  }

  const harness::TempFolder folder_;
};

GemmShape square(int64_t n) { return {DType::float32, n, n, n, false, false, n, n, n}; }

TEST_F(ProviderTableTest, AClassHoldsSizesNearAPowerOfTwo) {
  EXPECT_EQ(class_of(square(100)), class_of(square(140)));
  EXPECT_NE(class_of(square(100)), class_of(square(200)));
  for (bool collides : {false, true}) {
    for (bool transposed : {false, true}) {
      const GemmClass shapes{DType::float32, transposed, !transposed, collides, 6, 8, 7};
      EXPECT_EQ(class_of(typical_shape(shapes)), shapes);
    }
  }
}

TEST_F(ProviderTableTest, ANamedTableDecidesAndIsForgottenAgain) {
  ASSERT_STREQ(prepare_gemm(square(64))->provider(), "onednn");
  EXPECT_EQ(providers::table_hash(), 0u);
  ProviderTable table;
  table.set(class_of(square(64)), "openblas");
  const std::string path = folder_ / "written";
  table.write(path);
  providers::use_table(path);
  EXPECT_STREQ(prepare_gemm(square(64))->provider(), "openblas");
  EXPECT_STREQ(prepare_gemm(square(8))->provider(), "narrow");
  EXPECT_EQ(providers::table_hash(), table.hash());
  providers::use_table("");
  EXPECT_STREQ(prepare_gemm(square(64))->provider(), "onednn");
}

TEST_F(ProviderTableTest, AProviderThatDoesNotTakeAShapeOfItsClassIsPassedOver) {
  ProviderTable table;
  table.set(class_of(square(18)), "narrow");  // At most 16 columns.
  table.write(folder_ / "written");
  providers::use_table(folder_ / "written");
  EXPECT_STREQ(prepare_gemm(square(16))->provider(), "narrow");
  EXPECT_STRNE(prepare_gemm(square(18))->provider(), "narrow");
}

TEST_F(ProviderTableTest, TuningWritesAFileThatCanBeUsed) {
  const std::string path = folder_ / "tuned";
  int last = 0;
  const auto result = providers::tune(path, {.largest = 32,
                                             .seconds_per_candidate = 1e-5,
                                             .progress = [&](int done, int) { last = done; }});
  EXPECT_EQ(result.classes, 2 * 2 * 2 * 3 * 2);
  EXPECT_EQ(last, result.classes);
  EXPECT_EQ(ProviderTable::read(path).size(), static_cast<size_t>(result.different));
  EXPECT_NO_THROW(providers::use_table(path));
}

TEST_F(ProviderTableTest, ATableOfAnotherCpuIsUsedWithAWarning) {
  std::vector<std::string> messages;
  logging::set_sink([&](logging::Level, std::string_view text) { messages.emplace_back(text); });
  providers::use_table(file("tandem providers 1\ncpu A Slow One\n"));
  ProviderTable().write(folder_ / "own");
  providers::use_table(folder_ / "own");
  logging::set_sink({});
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("was measured on A Slow One"), std::string::npos) << messages[0];
}

TEST_F(ProviderTableTest, TuningLeavesAFormerTableAloneUntilItIsDone) {
  ProviderTable table;
  table.set(class_of(square(64)), "openblas");
  const std::string path = folder_ / "former";
  table.write(path);
  size_t seen = 0;
  providers::tune(path, {.largest = 16, .seconds_per_candidate = 1e-5, .progress = [&](int, int) {
                           seen = ProviderTable::read(path).size();
                         }});
  EXPECT_EQ(seen, 1u);
  for (int64_t largest : {8, 16'384}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { providers::tune(path, {.largest = largest}); },
                                        {"from 16 to 8192"}));
  }
}

TEST_F(ProviderTableTest, BadFilesAreRefusedByLine) {
  EXPECT_TRUE(
      throws<NotFound>([&] { providers::use_table(folder_ / "none"); }, {"none", "tandem tune"}));
  EXPECT_TRUE(throws<DataLoss>([&] { providers::use_table(file("")); }, {"empty"}));
  EXPECT_TRUE(throws<DataLoss>([&] { providers::use_table(file("hello\n")); }, {"line 1"}));
  const std::string head = "tandem providers 1\n";
  for (const char* line : {"gemm float32 N N - 6 6", "gemm float32 N X - 6 6 6 onednn",
                           "gemm float32 N N - 6 6 99 onednn", "gemm float32 N N - 6 6 6 onednn x",
                           "gemm int32 N N - 6 6 6 onednn"}) {
    EXPECT_TRUE(throws<DataLoss>([&] { providers::use_table(file(head + line + "\n")); },
                                 {"line 2", line, "gemm DTYPE"}));
  }
  EXPECT_TRUE(throws<DataLoss>(
      [&] { providers::use_table(file(head + "gemm float32 N N - 6 6 6 magic\n")); },
      {"line 2", "unknown provider"}));
  EXPECT_TRUE(throws<Unavailable>([&] { providers::tune("/no/such/folder/table"); }, {"/no/such"}));
}

}  // namespace
}  // namespace tandem::kernels::cpu
