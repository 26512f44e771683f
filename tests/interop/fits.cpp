#include "fits.h"

#include <nlohmann/json.hpp>

#include "tandem/tandem.h"

namespace tandem::interop {
namespace {

using data::Dataset;
using Json = nlohmann::json;

Tensor squares(const Tensor& y_true, const Tensor& y_pred) { return square(y_true - y_pred); }

/// The losses of fits.py.
keras::Loss loss_named(const std::string& name) {
  if (name == "own") return keras::Loss(squares);
  if (name == "own_mean") {
    return keras::Loss([](const Tensor& y_true, const Tensor& y_pred) {
      return reduce_mean(squares(y_true, y_pred));
    });
  }
  if (name == "own_sum") {
    const auto sum = [](const Tensor& y_true, const Tensor& y_pred) {
      return reduce_sum(squares(y_true, y_pred));
    };
    return {"own_sum", sum, keras::Reduction::sum};
  }
  return name;
}

class FitCase {
 public:
  FitCase(const NamedTensors& entries, int number)
      : entries_(entries), prefix_(std::to_string(number) + "/") {}

  bool exists() const { return entries_.contains(prefix_ + "row"); }

  void run(NamedTensors& results) const {
    try {
      fit(results);
    } catch (const std::exception& error) {
      const std::string text = error.what();
      results[prefix_ + "error"] = Tensor::from(std::vector<uint8_t>(text.begin(), text.end()),
                                                {static_cast<int64_t>(text.size())});
    }
  }

 private:
  Tensor entry(const std::string& name) const {
    const auto found = entries_.find(prefix_ + name);
    return found == entries_.end() ? Tensor() : found->second;
  }

  template <class T>
  static std::optional<T> maybe(const Json& row, const char* name) {
    return row.at(name).is_null() ? std::nullopt : std::optional(row.at(name).get<T>());
  }

  Dataset batches(const std::string& kind, int64_t size) const {
    Tensors all{entry("x"), entry("y")};
    if (const Tensor weight = entry("sample_weight"); weight.defined()) all.push_back(weight);
    const Dataset batches = Dataset::from_tensor_slices(all).batch(size);
    if (kind == "repeat") return batches.repeat();
    if (kind == "finite") return batches;
    return Dataset::from_generator([batches] {
      return [way = std::make_shared<data::Iterator>(batches.iterator(0))] { return way->next(); };
    });
  }

  keras::Model model(const Json& row) const {
    const auto metrics = row.at("metrics").get<std::vector<std::string>>();
    const auto weighted = row.at("weighted_metrics").get<std::vector<std::string>>();
    const auto x = keras::Input({entry("weight0").shape()[0]});
    const keras::Model model({x}, {keras::layers::Dense(1)(x)});
    model.set_weights({entry("weight0"), entry("weight1")});
    model.compile({.optimizer = keras::optimizers::SGD(0.0625),
                   .loss = loss_named(row.at("loss").get<std::string>()),
                   .metrics = {metrics.begin(), metrics.end()},
                   .weighted_metrics = {weighted.begin(), weighted.end()},
                   .steps_per_execution = row.at("steps_per_execution").get<int>()});
    return model;
  }

  keras::FitOptions options(const Json& row) const {
    keras::FitOptions options{.batch_size = maybe<int64_t>(row, "batch_size"),
                              .epochs = row.at("epochs").get<int>(),
                              .verbose = keras::Verbose::silent,
                              .shuffle = false,
                              .steps_per_epoch = maybe<int64_t>(row, "steps_per_epoch"),
                              .validation_steps = maybe<int64_t>(row, "validation_steps")};
    const auto held = maybe<std::string>(row, "validation_data");
    if (held == "arrays")
      options.validation_data = {{entry("x"), entry("y"), entry("sample_weight")}};
    if (held && held != "arrays") options.validation_data = batches(*held, 4);
    return options;
  }

  void fit(NamedTensors& results) const {
    const auto text = entry("row").to_vector<uint8_t>();
    const Json row = Json::parse(text.begin(), text.end());
    const auto strategy = row.at("replicas").get<int>() == 1
                              ? distribute::get_strategy()
                              : distribute::MirroredStrategy({"/CPU:0", "/CPU:1"});
    const auto scope = strategy.scope();
    const keras::Model model = this->model(row);
    keras::FitOptions options = this->options(row);
    const auto data = row.at("data").get<std::string>();
    keras::History history;
    if (data == "arrays") {
      options.sample_weight = entry("sample_weight");
      options.validation_split = row.at("validation_split").get<double>();
      for (const auto& [label, weight] : row.at("class_weight").items()) {
        options.class_weight[std::stoll(label)] = weight.get<double>();
      }
      history = model.fit(entry("x"), entry("y"), options);
    } else {
      history = model.fit(batches(data, *options.batch_size), options);
    }
    for (const auto& [name, values] : history.history) {
      results[prefix_ + "history/" + name] =
          Tensor::from(values, {static_cast<int64_t>(values.size())});
    }
    const keras::Logs logs = model.evaluate(entry("x"), entry("y"),
                                            {.verbose = keras::Verbose::silent,
                                             .sample_weight = entry("sample_weight"),
                                             .steps = maybe<int64_t>(row, "steps")});
    for (const auto& [name, value] : logs) results[prefix_ + "evaluate/" + name] = Tensor(value);
  }

  const NamedTensors& entries_;
  std::string prefix_;
};

}  // namespace

int fit_rows(const std::string& from, const std::string& to) {
  config::set_logical_cpus({{.threads = 1}, {.threads = 1}});
  const NamedTensors entries = load_npz(from);
  NamedTensors results;
  for (int number = 0; FitCase(entries, number).exists(); ++number) {
    FitCase(entries, number).run(results);
  }
  save_npz(to, results);
  return 0;
}

}  // namespace tandem::interop
