// Thousands of damaged files: each is read or refused with an Error. A crash, another exception or,
// under the sanitizers, a bad access fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "harness/temp_folder.h"
#include "tandem/error.h"
#include "tandem/tensor/npy.h"

namespace tandem {
namespace {

const std::filesystem::path kNumpyFiles = std::filesystem::path(TANDEM_FIXTURES_DIR) / "numpy";

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Mutator {
 public:
  std::string mutated(std::string bytes) {
    const int changes = 1 + below(4);
    for (int i = 0; i < changes && !bytes.empty(); ++i) change(bytes);
    return bytes;
  }

 private:
  int below(size_t end) { return static_cast<int>(random_() % end); }

  void change(std::string& bytes) {
    const auto at = static_cast<size_t>(below(bytes.size()));
    // Most of what is read with care stands at the beginning.
    const auto early = at % std::min<size_t>(bytes.size(), 128);
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        break;
      case 1:
        bytes[early] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(early, 1, "0123456789(),{}'<>|:- \n"[below(23)]);
        break;
      case 4:
        bytes.erase(early, 1);
        break;
      case 5:
        bytes.replace(early, 1, "99999999999999999999");
        break;
      case 6:
        bytes[at] = static_cast<char>(below(2) == 0 ? 0xff : 0);
        break;
    }
  }

  std::mt19937_64 random_{2026};
};

struct Outcome {
  int read = 0;
  int refused = 0;
};

template <class Load>
Outcome fuzz(const std::vector<std::string>& names, int rounds, const Load& load) {
  const harness::TempFolder folder;
  const auto path = folder / names[0];
  Mutator mutator;
  Outcome outcome;
  for (const std::string& name : names) {
    const std::string original = bytes_of(kNumpyFiles / name);
    for (int round = 0; round < rounds; ++round) {
      std::filesystem::remove(path);  // Some file systems are slow to replace what a file holds.
      std::ofstream(path, std::ios::binary) << mutator.mutated(original);
      try {
        load(path);
        ++outcome.read;
      } catch (const Error&) {
        ++outcome.refused;
      }
    }
  }
  return outcome;
}

TEST(NpyFuzz, DamagedArraysAreReadOrRefused) {
  const auto outcome = fuzz({"f4.npy", "b1.npy", "fortran_f4.npy", "big_i8.npy", "version2.npy",
                             "version3.npy", "scalar.npy", "empty.npy", "unknown_record.npy"},
                            400, [](const auto& path) { load_npy(path); });
  EXPECT_GT(outcome.read, 20);
  EXPECT_GT(outcome.refused, 1000);
}

TEST(NpyFuzz, DamagedArchivesAreReadOrRefused) {
  const auto outcome =
      fuzz({"stored.npz", "deflated.npz"}, 1000, [](const auto& path) { load_npz(path); });
  EXPECT_GT(outcome.read, 10);
  EXPECT_GT(outcome.refused, 1000);
}

}  // namespace
}  // namespace tandem
