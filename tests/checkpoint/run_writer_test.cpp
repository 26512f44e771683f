#include "checkpoint/run_writer.h"

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/crc32c.h"
#include "harness/classifier.h"
#include "harness/temp_folder.h"

namespace tandem::checkpoint {
namespace {

std::string some_bytes(size_t count, uint64_t seed) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>(harness::hashed(seed, i / 8) >> i % 8);
  return bytes;
}

/// Below and above the size from which the page cache is passed by; chunks end within runs and runs
/// within chunks.
TEST(RunWriter, RunsLieOneAfterAnotherEachWithItsChecksum) {
  const harness::TempFolder folder;
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{
           {},
           {0, 0},
           {1},
           {4096, 0, 17, 3'000'001},
           {0, 5, (8 << 20) + 3, 0, 1, 2'500'000, 4095},
           {1 << 20, 1 << 20, 7 << 20},
       }) {
    std::vector<std::string> contents;
    for (const size_t size : sizes) contents.push_back(some_bytes(size, contents.size()));
    std::string whole;
    std::vector<uint32_t> expected;
    for (const std::string& content : contents) {
      whole += content;
      expected.push_back(crc32c(content.data(), content.size()));
    }
    NewFile file(folder / "data");
    std::vector<ByteRun> runs;
    for (const auto& content : contents) runs.emplace_back(std::span<const char>(content));
    EXPECT_EQ(write_runs(file, runs), expected);
    EXPECT_FALSE(std::filesystem::exists(folder / "data"));
    file.rename();
    EXPECT_TRUE(read_file(folder / "data") == whole) << whole.size();
    std::filesystem::remove(folder / "data");
  }
}

}  // namespace
}  // namespace tandem::checkpoint
