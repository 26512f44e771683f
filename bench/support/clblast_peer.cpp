#include "support/clblast_peer.h"

#include <dlfcn.h>

#include <vector>

#include "bench.h"
#include "device/opencl/opencl_api.h"
#include "tandem/error.h"

namespace tandem::bench {
namespace {

/// As clblast_c.h has it.
using Sgemm = int (*)(int layout, int transpose_a, int transpose_b, size_t m, size_t n, size_t k,
                      float alpha, cl_mem a, size_t a_offset, size_t lda, cl_mem b, size_t b_offset,
                      size_t ldb, float beta, cl_mem c, size_t c_offset, size_t ldc,
                      cl_command_queue* queue, cl_event* event);
constexpr int kRowMajor = 101;
constexpr int kNotTransposed = 111;

Sgemm find_sgemm() {
  void* const library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : dlsym(library, "CLBlastSgemm");
  if (found == nullptr) {
    throw NotFound("gpu_matmul1024 compares with CLBlast; install Debian's package libclblast1");
  }
  return reinterpret_cast<Sgemm>(found);
}

}  // namespace

double clblast_seconds(int64_t size) {
  using devices::opencl::api;
  using devices::opencl::check;
  const Sgemm sgemm = find_sgemm();
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  cl_int status = CL_SUCCESS;
  check(api()->clGetPlatformIDs(1, &platform, nullptr), "clGetPlatformIDs");
  check(api()->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr), "clGetDeviceIDs");
  const cl_context context = api()->clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
  check(status, "clCreateContext");
  cl_command_queue queue = api()->clCreateCommandQueue(context, device, 0, &status);
  check(status, "clCreateCommandQueue");
  const auto n = static_cast<size_t>(size);
  const std::vector<float> ones(n * n, 1);
  const auto buffer = [&] {
    const cl_mem memory =
        api()->clCreateBuffer(context, CL_MEM_READ_WRITE, n * n * sizeof(float), nullptr, &status);
    check(status, "clCreateBuffer");
    check(api()->clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, n * n * sizeof(float), ones.data(),
                                      0, nullptr, nullptr),
          "clEnqueueWriteBuffer");
    return memory;
  };
  const cl_mem a = buffer();
  const cl_mem b = buffer();
  const cl_mem c = buffer();
  const double seconds = best_seconds(
      [&] {
        const int failed = sgemm(kRowMajor, kNotTransposed, kNotTransposed, n, n, n, 1, a, 0, n, b,
                                 0, n, 0, c, 0, n, &queue, nullptr);
        if (failed != 0) throw Unavailable("CLBlastSgemm failed");
        float first = 0;
        check(api()->clEnqueueReadBuffer(queue, c, CL_TRUE, 0, sizeof first, &first, 0, nullptr,
                                         nullptr),
              "clEnqueueReadBuffer");
        if (first != static_cast<float>(size)) throw DataLoss("CLBlastSgemm: a wrong product");
      },
      5, 0.3);
  for (const cl_mem memory : {a, b, c}) api()->clReleaseMemObject(memory);
  api()->clReleaseCommandQueue(queue);
  return seconds;
}

}  // namespace tandem::bench
