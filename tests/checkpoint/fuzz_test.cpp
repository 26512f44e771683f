// Thousands of damaged checkpoints: each is read or refused with an Error, and what is read is what
// was written. A crash, another exception or, under the sanitizers, a bad access fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "checkpoint/bundle_format.h"
#include "checkpoint/index_table.h"
#include "checkpoint/object_graph.h"
#include "harness/temp_folder.h"
#include "tandem/tandem.h"

namespace tandem::train {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(TANDEM_FIXTURES_DIR) / "tensorflow_checkpoints";

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);  // Some file systems are slow to replace what a file holds.
  std::ofstream(path, std::ios::binary) << bytes;
}

class Mutator {
 public:
  std::string mutated(std::string bytes) {
    const size_t changes = 1 + below(3);
    for (size_t i = 0; i < changes && !bytes.empty(); ++i) change(bytes);
    return bytes;
  }
  size_t below(size_t end) { return random_() % end; }

 private:
  void change(std::string& bytes) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, 1 + below(8), static_cast<char>(below(256)));
        break;
      case 4:
        bytes.erase(at, 1 + below(8));
        break;
      case 5:
        bytes.replace(at, std::min<size_t>(9, bytes.size() - at), 9, '\xff');
        break;
    }
  }

  std::mt19937_64 random_{2026};
};

struct Outcome {
  int read = 0;
  int refused = 0;
};

/// Restores objects like those that were saved, and reads all tensors.
class Victim {
 public:
  explicit Victim(std::filesystem::path prefix) : prefix_(std::move(prefix)) {
    layer_.track("kernel", kernel_);
    root_.track("layer", layer_);
    root_.track("step", step_);
    root_.track("position", HostState<std::string>{.save = [] { return std::string(); },
                                                   .restore = [](const std::string&) {}});
  }

  void read(Outcome& outcome) {
    try {
      Checkpoint(root_).restore(prefix_);
      const CheckpointReader reader = load_checkpoint(prefix_);
      for (const std::string& key : reader.keys()) {
        try {
          reader.tensor(key);
        } catch (const Unimplemented&) {  // Strings and int8.
        }
      }
      ++outcome.read;
    } catch (const Error&) {
      ++outcome.refused;
    }
  }

  bool is_as_saved() const {
    return kernel_.value().to_vector<float>() == std::vector<float>{0, 0.25, 0.5, 0.75, 1, 1.25};
  }

 private:
  std::filesystem::path prefix_;
  Variable kernel_{Tensor::from<float>({0, 0.25, 0.5, 0.75, 1, 1.25}, {2, 3})};
  Variable step_{Tensor(int64_t{0})};
  Trackable layer_;
  Trackable root_;
};

TEST(CheckpointFuzz, DamagedFilesAreReadOrRefused) {
  const harness::TempFolder folder;
  const std::string index = bytes_of(kFolder / "objects" / "ckpt-3.index");
  const std::string data = bytes_of(kFolder / "objects" / "ckpt-3.data-00000-of-00001");
  Mutator mutator;
  Outcome outcome;
  Victim victim(folder / "c");
  for (int round = 0; round < 3000; ++round) {
    const size_t which = mutator.below(3);
    write(folder / "c.index", which != 0 ? mutator.mutated(index) : index);
    write(folder / "c.data-00000-of-00001", which != 1 ? mutator.mutated(data) : data);
    victim.read(outcome);
    ASSERT_TRUE(victim.is_as_saved()) << round;
  }
  EXPECT_GT(outcome.refused, 2500);
}

/// Damage that the index's checksums do not show, because they were made after it.
TEST(CheckpointFuzz, DamagedEntriesBehindGoodChecksumsAreReadOrRefused) {
  const harness::TempFolder folder;
  const auto table = checkpoint::decode_index(bytes_of(kFolder / "objects" / "ckpt-3.index"));
  const std::string data = bytes_of(kFolder / "objects" / "ckpt-3.data-00000-of-00001");
  write(folder / "c.data-00000-of-00001", data);
  Mutator mutator;
  Outcome outcome;
  Victim victim(folder / "c");
  for (int round = 0; round < 3000; ++round) {
    auto damaged = table;
    auto at = damaged.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(mutator.below(damaged.size())));
    at->second = mutator.mutated(at->second);
    write(folder / "c.index", checkpoint::encode_index(damaged));
    victim.read(outcome);
    ASSERT_TRUE(victim.is_as_saved()) << round;
  }
  EXPECT_GT(outcome.refused, 1000);
}

TEST(CheckpointFuzz, DamagedGraphsAreReadOrRefused) {
  const std::string graph =
      load_checkpoint(kFolder / "classifier").bytes(checkpoint::kObjectGraphKey);
  Mutator mutator;
  Outcome outcome;
  for (int round = 0; round < 20'000; ++round) {
    try {
      const auto decoded = checkpoint::decode_graph(mutator.mutated(graph));
      checkpoint::paths(decoded);
      checkpoint::encode(decoded);
      ++outcome.read;
    } catch (const DataLoss&) {
      ++outcome.refused;
    }
  }
  EXPECT_GT(outcome.read, 1000);
  EXPECT_GT(outcome.refused, 1000);
}

}  // namespace
}  // namespace tandem::train
