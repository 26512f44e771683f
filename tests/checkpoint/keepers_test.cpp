// Checkpoints of which other tasks write parts: each its own data file, and what is cut between
// them is stored in slices, as TensorFlow stores partitioned variables.
#include "checkpoint/keepers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/bundle_format.h"
#include "checkpoint/bundle_reader.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/files.h"
#include "checkpoint/tensor_slice.h"
#include "harness/temp_folder.h"
#include "harness/throws.h"
#include "tandem/tandem.h"

namespace tandem::checkpoint {
namespace {

using Floats = std::vector<float>;

Floats numbered(int64_t count) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

/// Keepers of parts of one variable, which lie in this process.
class TestKeepers final : public Keepers {
 public:
  TestKeepers(const Variable& variable, std::vector<int64_t> ends)
      : variable_(variable), ends_(std::move(ends)) {}

  void settle() override { ++settled; }
  int count() const override { return static_cast<int>(ends_.size()); }
  std::vector<KeptElements> elements_of(const StoreRange& range) const override {
    std::vector<KeptElements> parts;
    if (range != variable_.body()->range) return parts;
    int64_t begin = 0;
    for (int k = 0; k < count(); ++k) {
      const int64_t end = ends_[static_cast<size_t>(k)];
      parts.push_back({k, 0, begin, end - begin});
      begin = end;
    }
    return parts;
  }
  std::vector<std::optional<WrittenKeeperFile>> write_files(
      const std::vector<KeeperFile>& files) override {
    std::vector<std::optional<WrittenKeeperFile>> written(files.size());
    for (size_t k = 0; k < files.size() && shares_folder; ++k) {
      const int64_t begin = k == 0 ? 0 : ends_[k - 1];
      const auto* const from =
          static_cast<const char*>(variable_.body()->range.data(*devices::host_device())) +
          static_cast<size_t>(begin) * sizeof(float);
      std::vector<ByteRun> runs;
      for (const KeptBytes& run : files[k].runs) {
        runs.emplace_back(std::span<const char>(from + run.offset, run.count));
      }
      const StoredString notes = store_string(notes_of(static_cast<int>(k)));
      runs.emplace_back(std::span<const char>(notes.bytes));
      NewFile file(files[k].path);
      std::vector<uint32_t> crcs = write_runs(file, runs);
      crcs.pop_back();
      file.leave();
      written[k] = WrittenKeeperFile{std::move(crcs), notes.bytes.size(), notes.crc};
    }
    return written;
  }
  std::string notes_of(int keeper) const override { return "notes of " + std::to_string(keeper); }
  void note_complete() override { ++completed; }

  bool shares_folder = true;
  int settled = 0;
  int completed = 0;

 private:
  const Variable variable_;
  const std::vector<int64_t> ends_;
};

TEST(Keepers, EachWritesItsFileAndTheWholeIsRestored) {
  for (const bool shares_folder : {true, false}) {
    const harness::TempFolder folder;
    const Variable table(Tensor::from(numbered(35), {5, 7}), {.name = "table"});
    const Variable other(Tensor(3.f));
    const auto keepers = std::make_shared<TestKeepers>(table, std::vector<int64_t>{3, 26, 35});
    keepers->shares_folder = shares_folder;
    add_keepers(keepers);
    const train::Checkpoint saved({{"table", table}, {"other", other}});
    const auto prefix = folder.path() / "ckpt";
    saved.write(prefix);
    saved.write(prefix);  // In the place of the former.
    EXPECT_EQ(keepers->settled, 2);
    EXPECT_EQ(keepers->completed, 2);
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(std::filesystem::exists(data_name(prefix.string(), i, 4))) << i;
    }
    const auto files = std::filesystem::directory_iterator(folder.path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 5);

    const Variable back(zeros({5, 7}));
    const train::Checkpoint restored({{"table", back}, {"other", Variable(Tensor(0.f))}});
    restored.restore(prefix).assert_consumed();
    EXPECT_EQ(back.value().to_vector<float>(), numbered(35));

    const train::CheckpointReader reader = train::load_checkpoint(prefix);
    EXPECT_EQ(reader.bytes(notes_key(1)), "notes of 1");
    EXPECT_EQ(reader.shape("table/.ATTRIBUTES/VARIABLE_VALUE"), (Shape{5, 7}));
    for (const std::string& key : reader.keys()) EXPECT_FALSE(is_slice_key(key));
  }
}

TEST(Keepers, ADamagedPartIsNamed) {
  const harness::TempFolder folder;
  const Variable table(Tensor::from(numbered(35), {5, 7}));
  const auto keepers = std::make_shared<TestKeepers>(table, std::vector<int64_t>{10, 35});
  add_keepers(keepers);
  const train::Checkpoint checkpoint({{"table", table}});
  const auto prefix = folder.path() / "ckpt";
  checkpoint.write(prefix);
  std::string bytes = read_file(data_name(prefix.string(), 2, 3));
  bytes[5] = static_cast<char>(bytes[5] ^ 1);
  write_file(data_name(prefix.string(), 2, 3), bytes);
  EXPECT_TRUE(harness::throws<DataLoss>([&] { checkpoint.restore(prefix); },
                                        {"data-00002-of-00003", "table", "checksum"}));
}

TEST(TensorSlices, BoxesCoverEveryRunOnce) {
  const std::vector<std::vector<int64_t>> shapes = {{12}, {3, 4}, {2, 3, 2}, {1, 5}, {4, 1, 3}};
  for (const auto& sizes : shapes) {
    int64_t all = 1;
    for (const int64_t size : sizes) all *= size;
    for (int64_t begin = 0; begin < all; ++begin) {
      for (int64_t end = begin + 1; end <= all; ++end) {
        int64_t at = begin;
        for (const TensorSlice& slice : slices_of(sizes, begin, end)) {
          EXPECT_EQ(first_element(slice, sizes), at);
          at += count_of(slice, sizes);
          EXPECT_EQ(decode_slice(encode(slice)), slice);
        }
        EXPECT_EQ(at, end);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::checkpoint
