/// CLBlast, the BLAS of OpenCL, to compare with.
#pragma once

#include <cstdint>

namespace tandem::bench {

/// The seconds of a product of two square float32 matrices with CLBlast as it comes, not tuned, on
/// the first OpenCL device. Throws NotFound where libclblast.so.1 is not installed.
double clblast_seconds(int64_t size);

}  // namespace tandem::bench
