#include "device/opencl/opencl_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "tandem/error.h"

namespace tandem::devices::opencl {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

const Api* load() {
  void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto* api = new Api;
#define TANDEM_FIND(name) find(library, #name, api->name)
  const bool complete =
      TANDEM_FIND(clGetPlatformIDs) && TANDEM_FIND(clGetPlatformInfo) &&
      TANDEM_FIND(clGetDeviceIDs) && TANDEM_FIND(clGetDeviceInfo) && TANDEM_FIND(clCreateContext) &&
      TANDEM_FIND(clCreateCommandQueue) && TANDEM_FIND(clReleaseCommandQueue) &&
      TANDEM_FIND(clCreateBuffer) && TANDEM_FIND(clReleaseMemObject) &&
      TANDEM_FIND(clCreateProgramWithSource) && TANDEM_FIND(clCreateProgramWithBinary) &&
      TANDEM_FIND(clBuildProgram) && TANDEM_FIND(clGetProgramBuildInfo) &&
      TANDEM_FIND(clGetProgramInfo) && TANDEM_FIND(clReleaseProgram) &&
      TANDEM_FIND(clCreateKernel) && TANDEM_FIND(clReleaseKernel) && TANDEM_FIND(clSetKernelArg) &&
      TANDEM_FIND(clEnqueueNDRangeKernel) && TANDEM_FIND(clEnqueueWriteBuffer) &&
      TANDEM_FIND(clEnqueueReadBuffer) && TANDEM_FIND(clEnqueueCopyBuffer) &&
      TANDEM_FIND(clEnqueueFillBuffer) && TANDEM_FIND(clEnqueueMarkerWithWaitList) &&
      TANDEM_FIND(clEnqueueBarrierWithWaitList) && TANDEM_FIND(clFlush) &&
      TANDEM_FIND(clGetEventInfo) && TANDEM_FIND(clGetEventProfilingInfo) &&
      TANDEM_FIND(clReleaseEvent) && TANDEM_FIND(clGetExtensionFunctionAddressForPlatform);
#undef TANDEM_FIND
  return complete ? api : nullptr;
}

}  // namespace

const Api* api() {
  static const Api* const api = load();
  return api;
}

std::string status_name(cl_int status) {
  const char* name = "status";
  switch (status) {
    case CL_DEVICE_NOT_AVAILABLE:
      name = "CL_DEVICE_NOT_AVAILABLE";
      break;
    case CL_COMPILER_NOT_AVAILABLE:
      name = "CL_COMPILER_NOT_AVAILABLE";
      break;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      name = "CL_MEM_OBJECT_ALLOCATION_FAILURE";
      break;
    case CL_OUT_OF_RESOURCES:
      name = "CL_OUT_OF_RESOURCES";
      break;
    case CL_OUT_OF_HOST_MEMORY:
      name = "CL_OUT_OF_HOST_MEMORY";
      break;
    case CL_BUILD_PROGRAM_FAILURE:
      name = "CL_BUILD_PROGRAM_FAILURE";
      break;
    case CL_INVALID_VALUE:
      name = "CL_INVALID_VALUE";
      break;
    case CL_INVALID_KERNEL_ARGS:
      name = "CL_INVALID_KERNEL_ARGS";
      break;
    case CL_INVALID_WORK_GROUP_SIZE:
      name = "CL_INVALID_WORK_GROUP_SIZE";
      break;
    case CL_INVALID_BUFFER_SIZE:
      name = "CL_INVALID_BUFFER_SIZE";
      break;
    case CL_INVALID_ARG_SIZE:
      name = "CL_INVALID_ARG_SIZE";
      break;
    case CL_INVALID_ARG_INDEX:
      name = "CL_INVALID_ARG_INDEX";
      break;
    case CL_MEM_COPY_OVERLAP:
      name = "CL_MEM_COPY_OVERLAP";
      break;
    default:
      break;
  }
  return fmt::format("{} ({})", name, status);
}

void check(cl_int status, const char* function) {
  if (status == CL_SUCCESS) return;
  const std::string message = fmt::format("{}: {}", function, status_name(status));
  switch (status) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
      throw ResourceExhausted(message);
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_COMPILER_NOT_AVAILABLE:
      throw Unavailable(message);
    default:
      throw InvalidArgument(message);
  }
}

}  // namespace tandem::devices::opencl
