/// A checkpoint of 256 MB, as 64 variables of 4 MB: saved (on the disk when it returns), and
/// restored from the page cache. In the place of a loss stands the sum of what is saved or
/// restored, which peers compare.
#include <unistd.h>

#include <filesystem>

#include "bench.h"
#include "device/logical_device.h"
#include "harness/classifier.h"
#include "tandem/tandem.h"

namespace tandem::bench {
namespace {

constexpr int kVariables = 64;
constexpr int64_t kSide = 1024;

class SavedModel {
 public:
  SavedModel() {
    std::vector<float> values(kSide * kSide);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(harness::uniform(7, i));
    }
    for (int i = 0; i < kVariables; ++i) {
      variables_.emplace_back(Tensor::from(values, {kSide, kSide}));
      node_.track(std::to_string(i), variables_.back());
    }
    std::filesystem::create_directories(folder_);
  }
  ~SavedModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  SavedModel(const SavedModel&) = delete;
  SavedModel& operator=(const SavedModel&) = delete;

  void save() const { checkpoint_.write(path()); }
  void forget() const {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    ::sync();
  }
  void restore() const { checkpoint_.restore(path()); }
  void clear() const {
    for (const Variable& v : variables_) v.assign(zeros({kSide, kSide}));
  }
  double sum() const {
    double total = 0;
    for (const Variable& v : variables_) {
      total += reduce_sum(cast(v, DType::float64)).item<double>();
    }
    return total;
  }

 private:
  std::filesystem::path path() const { return folder_ / "ckpt"; }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("tandem_bench_" + std::to_string(::getpid()));
  Variables variables_;
  Trackable node_;
  train::Checkpoint checkpoint_{NamedTrackables{{"model", node_}}};
};

constexpr int kRepetitions = 10;

}  // namespace

void ckpt_save() {
  devices::reset_devices();
  const SavedModel model;
  report("ckpt_save.loss", model.sum(), "loss");
  double best = 1e30;
  for (int r = 0; r < kRepetitions; ++r) {
    model.forget();
    const auto start = Clock::now();
    model.save();
    best = std::min(best, seconds_since(start));
  }
  report("ckpt_save", best * 1e6, "us");
}

void ckpt_restore() {
  devices::reset_devices();
  const SavedModel model;
  model.save();
  model.clear();
  model.restore();
  report("ckpt_restore.loss", model.sum(), "loss");
  report("ckpt_restore", best_seconds([&] { model.restore(); }, kRepetitions) * 1e6, "us");
}

}  // namespace tandem::bench
