/// NumPy's files: one array (.npy) or a zip archive of named ones (.npz). Any thread may use these;
/// writers of one path at once are the caller's to order. A file appears whole or not at all.
///
/// float16, float32, float64, uint8, int32, int64 and bool are read and written; other element
/// types, objects and records are Unimplemented. A file that is damaged is DataLoss, naming the
/// file and what is wrong; one that cannot be opened is NotFound, one that cannot be written
/// Unavailable.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tandem/tensor.h"

namespace tandem {

/// The array in the file, on the host. Header versions 1.0 to 3.0, either byte order, rows or
/// columns first.
TANDEM_API Tensor load_npy(const std::filesystem::path& path);

/// Throws InvalidArgument for bfloat16, which NumPy does not have, and FailedPrecondition while
/// tracing.
TANDEM_API void save_npy(const std::filesystem::path& path, const Tensor& tensor);

using NamedTensors = std::map<std::string, Tensor>;

/// The arrays in the archive by name, without the ".npy" of their entries. Entries may be stored or
/// deflated.
TANDEM_API NamedTensors load_npz(const std::filesystem::path& path);

struct NpzOptions {
  bool compress = false;  ///< Deflated, as numpy.savez_compressed does.
};

/// Names may contain '/'. Throws as save_npy, and InvalidArgument for an empty name.
TANDEM_API void save_npz(const std::filesystem::path& path, const NamedTensors& tensors,
                         const NpzOptions& options = {});

}  // namespace tandem
