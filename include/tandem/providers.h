/// Which implementation computes what. Matrix products have several providers (oneDNN, OpenBLAS,
/// our own kernels); a static table chooses by shape, so that results are the same on every run. A
/// table measured on this machine takes its place where it is named.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tandem/export.h"

namespace tandem::providers {

/// Products prepared from now on are chosen by the table in this file, where it knows their class,
/// else by the static one. The environment variable TANDEM_PROVIDERS names a file for the first
/// product of a process. An empty path goes back to the static table. Throws NotFound when there is
/// no such file and DataLoss, naming file and line, when it is none of ours; warns of one that was
/// measured on another CPU.
TANDEM_API void use_table(const std::string& path);

/// A number for the table in use: 0 for the static one. Training states keep it, since other
/// providers round differently.
TANDEM_API uint64_t table_hash();

struct TuneOptions {
  /// Sizes measured are powers of two from 16 up to this, 8192 at most.
  int64_t largest = 1024;
  /// The time each candidate gets per class, at least.
  double seconds_per_candidate = 0.002;
  /// A function that is called after each class with the number done and the number of all.
  std::function<void(int done, int all)> progress = {};
};

struct TuneResult {
  int classes = 0;    ///< The classes of shapes that were measured,
  int different = 0;  ///< and those for which another provider is faster than the static choice.
  double gain = 1;    ///< Mean over all classes of the static choice's time over the best one's.
};

/// Measures the providers on this machine, one core, and writes the classes in which another one
/// than the static choice is clearly faster to `path`. A file that is there stays until the new one
/// is complete. Throws Unavailable when it cannot be written.
TANDEM_API TuneResult tune(const std::string& path, const TuneOptions& options = {});

struct GpuTuneOptions {
  int64_t size = 1024;    ///< Rows and columns of the largest matrices.
  double seconds = 0.05;  ///< The time each provider gets per product, at least.
  bool keeps = true;      ///< The answer is for later processes, too, not for this one alone.
};

struct GpuTuneResult {
  std::string device;    ///< "/device:GPU:0"
  std::string provider;  ///< "own", or "clblast".
  double ratio = 1;      ///< CLBlast's time over that of our own kernels.
};

/// Measures on each GPU of OpenCL whether CLBlast multiplies faster than our own kernels, and keeps
/// the answer in the user's cache folder, where programs find it that start later. Devices for
/// which there is nothing to choose are left out: CLBlast is not installed.
TANDEM_API std::vector<GpuTuneResult> tune_gpus(const GpuTuneOptions& options = {});

}  // namespace tandem::providers
