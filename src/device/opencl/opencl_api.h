/// The functions of libOpenCL that are used, found at run time: a machine without it is a machine
/// without OpenCL devices, and nothing else.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <string>

namespace tandem::devices::opencl {

/// Each member is the function of its name.
struct Api {
  decltype(&::clGetPlatformIDs) clGetPlatformIDs;
  decltype(&::clGetPlatformInfo) clGetPlatformInfo;
  decltype(&::clGetDeviceIDs) clGetDeviceIDs;
  decltype(&::clGetDeviceInfo) clGetDeviceInfo;
  decltype(&::clCreateContext) clCreateContext;
  decltype(&::clCreateCommandQueue) clCreateCommandQueue;
  decltype(&::clReleaseCommandQueue) clReleaseCommandQueue;
  decltype(&::clCreateBuffer) clCreateBuffer;
  decltype(&::clReleaseMemObject) clReleaseMemObject;
  decltype(&::clCreateProgramWithSource) clCreateProgramWithSource;
  decltype(&::clCreateProgramWithBinary) clCreateProgramWithBinary;
  decltype(&::clBuildProgram) clBuildProgram;
  decltype(&::clGetProgramBuildInfo) clGetProgramBuildInfo;
  decltype(&::clGetProgramInfo) clGetProgramInfo;
  decltype(&::clReleaseProgram) clReleaseProgram;
  decltype(&::clCreateKernel) clCreateKernel;
  decltype(&::clReleaseKernel) clReleaseKernel;
  decltype(&::clSetKernelArg) clSetKernelArg;
  decltype(&::clEnqueueNDRangeKernel) clEnqueueNDRangeKernel;
  decltype(&::clEnqueueWriteBuffer) clEnqueueWriteBuffer;
  decltype(&::clEnqueueReadBuffer) clEnqueueReadBuffer;
  decltype(&::clEnqueueCopyBuffer) clEnqueueCopyBuffer;
  decltype(&::clEnqueueFillBuffer) clEnqueueFillBuffer;
  decltype(&::clEnqueueMarkerWithWaitList) clEnqueueMarkerWithWaitList;
  decltype(&::clEnqueueBarrierWithWaitList) clEnqueueBarrierWithWaitList;
  decltype(&::clFlush) clFlush;
  decltype(&::clGetEventInfo) clGetEventInfo;
  decltype(&::clGetEventProfilingInfo) clGetEventProfilingInfo;
  decltype(&::clReleaseEvent) clReleaseEvent;
  decltype(&::clGetExtensionFunctionAddressForPlatform) clGetExtensionFunctionAddressForPlatform;
};

/// Null where libOpenCL is not installed, or is too old.
const Api* api();

/// "CL_OUT_OF_RESOURCES (-5)"
std::string status_name(cl_int status);

/// Throws the Error that fits `status`, naming `function`; does nothing for CL_SUCCESS.
void check(cl_int status, const char* function);

}  // namespace tandem::devices::opencl
