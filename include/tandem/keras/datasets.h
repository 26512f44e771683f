/// Data sets to try things with, read from files that are already on the machine: nothing is
/// downloaded. Any thread may load them.
///
///   const auto [train, test] = keras::datasets::fashion_mnist::load_data();
///   auto batches = data::Dataset::from_tensor_slices(train.x, train.y).shuffle(60'000).batch(128);
#pragma once

#include <filesystem>

#include "tandem/tensor.h"

namespace tandem::keras::datasets {

/// Examples and their labels.
struct Examples {
  Tensor x;
  Tensor y;
};

struct TrainAndTest {
  Examples train;
  Examples test;
};

namespace fashion_mnist {

/// 60,000 + 10,000 pictures of clothes: x uint8[n,28,28], y uint8[n] with classes 0 to 9. `path` is
/// a folder with the four IDX files (`train-images-idx3-ubyte`, .., plain or .gz), or an .npz file
/// with x_train, y_train, x_test, y_test. Without one: the folder of Debian's package
/// dataset-fashion-mnist, then Keras's cache (KERAS_HOME, else ~/.keras). Throws NotFound with the
/// places and how to get the data, DataLoss for damaged files.
TANDEM_API TrainAndTest load_data(const std::filesystem::path& path = {});

}  // namespace fashion_mnist

namespace mnist {

/// The same with pictures of digits; without a path, Keras's cache file `datasets/mnist.npz`.
TANDEM_API TrainAndTest load_data(const std::filesystem::path& path = {});

}  // namespace mnist

}  // namespace tandem::keras::datasets
