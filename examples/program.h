/// What the example programs share: flags, reports, and how an error ends them.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/tandem.h"

namespace example {

/// The number after `name`, or `otherwise`.
inline int flag(int count, char** words, std::string_view name, int otherwise) {
  for (int i = 1; i + 1 < count; ++i) {
    if (name == words[i]) return std::atoi(words[i + 1]);
  }
  return otherwise;
}

inline bool has_flag(int count, char** words, std::string_view name) {
  for (int i = 1; i < count; ++i) {
    if (name == words[i]) return true;
  }
  return false;
}

/// The word after `name`, or `otherwise`.
inline std::string text_flag(int count, char** words, std::string_view name,
                             const std::string& otherwise) {
  for (int i = 1; i + 1 < count; ++i) {
    if (name == words[i]) return words[i + 1];
  }
  return otherwise;
}

/// Cuts the CPU into as many devices as --logical-cpus says.
inline void use_logical_cpus(int count, char** words, int otherwise) {
  const int cpus = std::max(flag(count, words, "--logical-cpus", otherwise), 0);
  tandem::config::set_logical_cpus(
      std::vector<tandem::config::LogicalCpu>(static_cast<size_t>(cpus)));
}

/// The images of Fashion-MNIST as rows of 784 numbers from 0 to 1, and their classes one-hot, as
/// the articles prepare MNIST. Only the first `most` for training.
inline tandem::keras::datasets::TrainAndTest flat_fashion_mnist(int64_t most = 60'000) {
  auto [train, test] = tandem::keras::datasets::fashion_mnist::load_data();
  const auto prepared = [](const tandem::keras::datasets::Examples& examples, int64_t rows) {
    rows = std::min<int64_t>(rows, examples.y.shape()[0]);
    const tandem::Tensor images = tandem::reshape(examples.x.rows(0, rows), {-1, 784});
    return tandem::keras::datasets::Examples{
        tandem::cast(images, tandem::DType::float32) / 255.0,
        tandem::keras::utils::to_categorical(examples.y.rows(0, rows), 10)};
  };
  return {prepared(train, most), prepared(test, test.y.shape()[0])};
}

/// Devices and placement as the flags say: --test-gpus 2, --soft-placement.
inline void configure(int count, char** words) {
  for (int i = 0; i < flag(count, words, "--test-gpus", 0); ++i) tandem::config::add_test_device();
  tandem::config::set_soft_device_placement(has_flag(count, words, "--soft-placement"));
  tandem::config::set_log_device_placement(true);
  tandem::logging::set_level(tandem::logging::Level::error);  // The report says it all.
}

inline void print_reports() {
  for (const auto& placement : tandem::placement_report()) {
    std::printf("%s ran on %s (%s)\n", placement.op.c_str(), placement.device.c_str(),
                placement.reason.c_str());
  }
  for (const auto& count : tandem::copy_report()) {
    std::printf("%s -> %s: %llu copies, %llu bytes\n", count.from.c_str(), count.to.c_str(),
                static_cast<unsigned long long>(count.copies),
                static_cast<unsigned long long>(count.bytes));
  }
}

/// The exit status of `program`; an error is printed with its kind.
inline int run(const std::function<void()>& program) {
  try {
    program();
  } catch (const tandem::Error& error) {
    std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
    return 1;
  }
  return 0;
}

}  // namespace example
