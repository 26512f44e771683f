/// Checks that a model trains the same on any number of replicas. For tests of one's own models and
/// layers: what depends on how a batch is split (a mean over the replica's rows, statistics of a
/// part of the batch) shows up here.
///
///   checks::TrainingCase training;
///   training.model = [] { return keras::Sequential({keras::layers::Dense(1)}); };
///   training.compile = [] { return keras::CompileOptions{.optimizer = "adam", .loss = "mse"}; };
///   training.x = {x};  // float64, so that rounding does not hide anything
///   training.y = {y};
///   checks::Equivalence result = checks::check_equivalence(
///       training, {distribute::MirroredStrategy({"/CPU:0", "/CPU:1"})});
///   ASSERT_TRUE(result.same) << result.text;
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tandem/distribute.h"
#include "tandem/keras/model.h"

namespace tandem::checks {

struct TrainingCase {
  /// Called anew in the scope of each strategy, with the same random seed.
  std::function<keras::Model()> model{};
  std::function<keras::CompileOptions()> compile{};

  Tensors x{};
  Tensors y{};
  Tensor sample_weight{};
  int64_t batch_size = 32;
  int epochs = 2;

  /// The difference that is allowed, relative to the largest element of each loss, metric, gradient
  /// or weight.
  double tolerance = 1e-9;
};

struct Equivalence {
  bool same = true;
  double largest = 0;  ///< The largest difference, relative to the largest element there.
  std::string text;    ///< What differs, and by how much, by strategy; empty where nothing does.
};

/// Trains on one device without a strategy, then with each of these, and compares the gradients of
/// the first batch, the loss and metrics after each step and epoch, those of evaluate(), the rows
/// of predict(), and all weights at the end. Left out are weights whose gradient is zero but for
/// rounding (the bias of attention's keys): optimizers make noise of it. Changes the global random
/// seed. Throws what training throws.
TANDEM_API Equivalence check_equivalence(const TrainingCase& training,
                                         const std::vector<distribute::Strategy>& strategies);

}  // namespace tandem::checks
