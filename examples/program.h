/// What the example programs share: flags, data, reports, and how an error ends them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "tandem/tandem.h"

namespace CLI {
class App;
}

namespace example {

/// The command line of a program, read by CLI11: `--help` lists the flags with their defaults, and
/// what is not among them is an error.
class Flags {
 public:
  /// What `--help` says before the flags, and after them. An error about a device or a file that
  /// does not exist ends with the hint, too.
  explicit Flags(const std::string& description, const std::string& hint = "");
  ~Flags();

  /// A flag whose default is the value that the variable has.
  void add(const std::string& name, int& value, const std::string& help, int least = 1);
  void add(const std::string& name, int64_t& value, const std::string& help, int64_t least = 1);
  void add(const std::string& name, std::string& value, const std::string& help);
  void add(const std::string& name, bool& value, const std::string& help);

  /// Reads the words, then runs the program. Returns the exit status; an error is printed with its
  /// kind.
  int run(int count, char** words, const std::function<void()>& program);

 private:
  std::unique_ptr<CLI::App> app_;
  std::string hint_;
};

/// Cuts the CPU into so many devices.
void use_logical_cpus(int count);

/// Makes so many GPUs of the machine's OpenCL, which may be a CPU's (PoCL). Throws NotFound where
/// there is none.
void use_opencl(int count);

/// The devices that replicas run on.
struct ReplicaDevices {
  int logical_cpus = 2;
  int opencl_cpu = 0;

  void add_to(Flags& flags);
  void configure() const;
};

/// The images of Fashion-MNIST as rows of 784 numbers from 0 to 1, and their classes one-hot. Only
/// the first `most` for training.
tandem::keras::datasets::TrainAndTest flat_fashion_mnist(int64_t most = 60'000);

/// GPUs for programs that name some, on machines that have none.
struct Gpus {
  int opencl_cpu = 0;
  int test_gpus = 0;

  void add_to(Flags& flags);
  void configure() const;
};

/// How programs place their ops.
struct DeviceSetup {
  Gpus gpus;
  bool soft = false;

  void add_to(Flags& flags);

  /// Makes the devices, and keeps the log of placements for print_reports.
  void configure() const;
};

/// Prints where ops ran, and what was copied.
void print_reports();

}  // namespace example
