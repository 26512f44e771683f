/// Files in the IDX format of the MNIST data sets: http://yann.lecun.com/exdb/mnist
#pragma once

#include <filesystem>

#include "tandem/tensor.h"

namespace tandem::keras {

/// The array of bytes in the file, plain or compressed with gzip, as uint8. Throws NotFound,
/// DataLoss for a damaged file and Unimplemented for elements other than unsigned bytes, all with
/// the path.
Tensor load_idx(const std::filesystem::path& path);

}  // namespace tandem::keras
