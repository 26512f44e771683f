#include "model_checkpoints.h"

#include <nlohmann/json.hpp>

#include "models.h"

namespace tandem::interop {
namespace {

using Json = nlohmann::json;

class ModelCase {
 public:
  ModelCase(const NamedTensors& entries, const std::string& prefix, const Json& description)
      : prefix_(prefix),
        description_(description),
        x_(numbered(entries, "x")),
        y_(numbered(entries, "y")),
        model_(make_model(text("model"))),
        optimizer_(make_optimizer(text("optimizer"))) {}

  void run(NamedTensors& results) const {
    model_.compile({.optimizer = optimizer_, .loss = {"mse"}});
    const bool is_described = !model_.weights().empty();
    if (is_described) {
      // Functions that were compiled before are to see what is restored.
      model_.predict(x_);
      model_.evaluate(x_, y_, {.verbose = keras::Verbose::silent});
    }
    const train::CheckpointStatus status = checkpoint().restore(text("restore"));
    add(results, "restored", model_.predict(x_));
    results[prefix_ + "loss"] =
        Tensor(model_.evaluate(x_, y_, {.verbose = keras::Verbose::silent}).at("loss"));
    if (text("form") != "model") optimizer_.build(model_.trainable_weights());
    status.assert_consumed();
    for (int i = 0; i < description_.at("steps"); ++i) model_.train_on_batch(x_, y_);
    add(results, "trained", model_.predict(x_));
    checkpoint().save(text("save"));
  }

 private:
  std::string text(const char* name) const { return description_.at(name); }

  /// "both" is the model and its optimizer; "model" and "compiled" are the model alone, and "root"
  /// is the model without a name.
  train::Checkpoint checkpoint() const {
    if (text("form") == "root") return train::Checkpoint(model_);
    if (text("form") == "both") {
      return train::Checkpoint({{"model", model_}, {"optimizer", optimizer_}});
    }
    return train::Checkpoint({{"model", model_}});
  }

  Tensors numbered(const NamedTensors& entries, const std::string& name) const {
    Tensors found;
    for (;;) {
      const auto entry = entries.find(prefix_ + name + std::to_string(found.size()));
      if (entry == entries.end()) return found;
      found.push_back(entry->second);
    }
  }

  void add(NamedTensors& results, const std::string& name, const Tensors& tensors) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      results[prefix_ + name + std::to_string(i)] = tensors[i];
    }
  }

  const std::string prefix_;
  const Json description_;
  const Tensors x_, y_;
  const keras::Model model_;
  const keras::optimizers::Optimizer optimizer_;
};

Tensor bytes_of(const std::string& text) {
  return Tensor::from(std::vector<uint8_t>(text.begin(), text.end()),
                      {static_cast<int64_t>(text.size())});
}

}  // namespace

int continue_models(const std::string& cases, const std::string& results) {
  const NamedTensors entries = load_npz(cases);
  NamedTensors all;
  for (int number = 0; entries.contains(std::to_string(number) + "/case"); ++number) {
    const std::string prefix = std::to_string(number) + "/";
    try {
      const auto bytes = entries.at(prefix + "case").to_vector<uint8_t>();
      ModelCase(entries, prefix, Json::parse(bytes.begin(), bytes.end())).run(all);
    } catch (const std::exception& error) {
      all[prefix + "error"] = bytes_of(error.what());
    }
  }
  save_npz(results, all);
  return 0;
}

}  // namespace tandem::interop
