// Compiled kernels on disk: found again, told apart, and never more than an inconvenience.
#include "device/gpu/kernel_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "harness/temp_folder.h"

namespace tandem::devices::gpu {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public testing::Test {
 protected:
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder.path())) found.push_back(entry.path());
    return found;
  }

  const harness::TempFolder folder;
};

TEST_F(KernelCacheTest, WhatWasAddedIsFoundByAnotherProcess) {
  const std::string binary("\0code\n\0", 7);
  KernelCache(folder.path()).add("key", binary);
  EXPECT_EQ(KernelCache(folder.path()).find("key"), binary);
  EXPECT_EQ(KernelCache(folder.path()).find("other key"), std::nullopt);
}

TEST_F(KernelCacheTest, ADamagedFileIsNotFound) {
  KernelCache cache(folder.path());
  cache.add("key", std::string(1000, 'x'));
  const fs::path file = files().at(0);
  for (const size_t size : {999, 100, 20, 3, 0}) {
    fs::resize_file(file, size);
    EXPECT_EQ(cache.find("key"), std::nullopt) << size;
  }
  cache.add("key", "again");
  EXPECT_EQ(cache.find("key"), "again");
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(-1, std::ios::end)
      .put('!');
  EXPECT_EQ(cache.find("key"), std::nullopt);
}

TEST_F(KernelCacheTest, AFolderThatCannotBeWrittenIsOnlySlower) {
  const std::string place = (folder / "file").string();
  std::ofstream(place) << "not a folder";
  KernelCache cache(place + "/kernels");
  cache.add("key", "binary");
  EXPECT_EQ(cache.find("key"), std::nullopt);
  KernelCache nowhere("");
  nowhere.add("key", "binary");
  EXPECT_EQ(nowhere.find("key"), std::nullopt);
}

TEST_F(KernelCacheTest, WhatWasNotUsedForLongestGoesFirst) {
  KernelCache cache(folder.path(), 5000);
  const auto age = [&](const fs::path& file, std::chrono::hours by) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - by);
  };
  cache.add("first", std::string(2000, '1'));
  age(files().at(0), std::chrono::hours(3));
  cache.add("second", std::string(2000, '2'));
  EXPECT_TRUE(cache.find("first"));  // It was used just now, so the second is older.
  for (const fs::path& file : files()) {
    if (fs::last_write_time(file) < fs::file_time_type::clock::now() - std::chrono::minutes(1)) {
      ADD_FAILURE() << file << " was used and still looks old";
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(cache.find("first"));
  cache.add("third", std::string(2000, '3'));
  EXPECT_TRUE(cache.find("first"));
  EXPECT_TRUE(cache.find("third"));
  EXPECT_FALSE(cache.find("second"));
}

TEST_F(KernelCacheTest, ManyThreadsAddAndFindAtOnce) {
  KernelCache cache(folder.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = "key " + std::to_string(i % 5);
        cache.add(key, std::string(3000, static_cast<char>('0' + i % 5)));
        const auto found = cache.find(key);
        EXPECT_TRUE(found && *found == std::string(3000, static_cast<char>('0' + i % 5)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files().size(), 5u);  // Nothing was left aside.
}

}  // namespace
}  // namespace tandem::devices::gpu
