#include "tandem/keras/datasets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "keras/datasets/idx.h"
#include "tandem/error.h"
#include "tandem/tensor/npy.h"

namespace tandem::keras::datasets {
namespace {

namespace fs = std::filesystem;

/// Keras's own folder of data sets; none where there is no home.
std::optional<fs::path> keras_folder() {
  if (const char* keras = std::getenv("KERAS_HOME")) return fs::path(keras) / "datasets";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".keras" / "datasets";
  return std::nullopt;
}

void check(const Examples& examples, const char* part) {
  const auto& [x, y] = examples;
  if (x.rank() == 3 && y.rank() == 1 && x.shape()[0] == y.shape()[0]) return;
  throw DataLoss(
      fmt::format("the {} pictures are {} and their labels {}; as many labels as "
                  "pictures are accepted, [n,height,width] and [n]",
                  part, x.shape().str(), y.shape().str()));
}

TrainAndTest checked(TrainAndTest data) {
  check(data.train, "training");
  check(data.test, "test");
  return data;
}

TrainAndTest load_archive(const fs::path& path) {
  const NamedTensors arrays = load_npz(path);
  const auto array = [&](const char* name) {
    const auto found = arrays.find(name);
    if (found != arrays.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [each, tensor] : arrays) names.push_back(each);
    throw DataLoss(fmt::format("there is no array '{}', only {}", name, fmt::join(names, ", ")));
  };
  return {{array("x_train"), array("y_train")}, {array("x_test"), array("y_test")}};
}

/// The file in the folder, plain or compressed.
fs::path idx_file(const fs::path& folder, const char* name) {
  const fs::path plain = folder / name;
  return fs::exists(plain) ? plain : folder / fmt::format("{}.gz", name);
}

TrainAndTest load_folder(const fs::path& folder) {
  const auto array = [&](const char* name) { return load_idx(idx_file(folder, name)); };
  return {{array("train-images-idx3-ubyte"), array("train-labels-idx1-ubyte")},
          {array("t10k-images-idx3-ubyte"), array("t10k-labels-idx1-ubyte")}};
}

bool has_data(const fs::path& place) {
  std::error_code ignored;
  if (fs::is_regular_file(place, ignored)) return true;
  return fs::exists(idx_file(place, "train-images-idx3-ubyte"), ignored);
}

/// Reads the data set from the first of `places` that has it: an archive, or a folder of IDX files.
TrainAndTest load(const char* name, const std::vector<fs::path>& places, const char* advice) {
  for (const fs::path& place : places) {
    if (!has_data(place)) continue;
    try {
      return checked(fs::is_directory(place) ? load_folder(place) : load_archive(place));
    } catch (const Error& error) {
      error.rethrow_within(fmt::format("{}: {}", name, place.string()));
    }
  }
  std::vector<std::string> texts;
  texts.reserve(places.size());
  for (const fs::path& place : places) texts.push_back(place.string());
  throw NotFound(fmt::format("{}: no data in {}; {}", name, fmt::join(texts, ", "), advice));
}

constexpr const char* kOtherWays =
    "or give load_data a folder with the IDX files train-images-idx3-ubyte, "
    "train-labels-idx1-ubyte, "
    "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (plain or .gz), or an .npz file with "
    "x_train, "
    "y_train, x_test and y_test";

}  // namespace

TrainAndTest fashion_mnist::load_data(const fs::path& path) {
  std::vector<fs::path> places{path};
  if (path.empty()) {
    places = {"/usr/share/datasets/fashion-mnist"};
    if (const auto keras = keras_folder()) places.push_back(*keras / "fashion-mnist");
  }
  const std::string advice =
      fmt::format("get it with 'apt-get install dataset-fashion-mnist', {}", kOtherWays);
  return load("fashion_mnist", places, advice.c_str());
}

TrainAndTest mnist::load_data(const fs::path& path) {
  std::vector<fs::path> places{path};
  if (path.empty()) {
    places.clear();
    if (const auto keras = keras_folder()) places = {*keras / "mnist.npz", *keras / "mnist"};
  }
  const std::string advice = fmt::format(
      "get https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz, or let Keras do "
      "so "
      "with 'python3 -c \"import keras; keras.datasets.mnist.load_data()\"', {}",
      kOtherWays);
  return load("mnist", places, advice.c_str());
}

}  // namespace tandem::keras::datasets
