// A libcuda.so.1 of two GPUs whose memory is that of the host. FAKE_CUDA says what is wrong with
// them: "wrong" (copies from one to the other damage a byte), "apart" (no peer access), "full" (no
// memory). CUDA_VISIBLE_DEVICES is a list of 0 and 1.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "gpu/cuda_api.hpp"

// The types are those that hymn declares: UBSan compares them at each call through a pointer.
using hymn::cuda_api::Context;
using hymn::cuda_api::Uuid;

#pragma GCC visibility push(default)

namespace {

constexpr int out_of_memory = 2;

bool is(const char* fault) {
  const char* text = std::getenv("FAKE_CUDA");
  return text != nullptr && std::strcmp(text, fault) == 0;
}

// The numbers of the GPUs that can be seen, one character each.
std::string visible() {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string numbers;
  for (const char digit : std::string(text == nullptr ? "0,1" : text))
    if (digit == '0' || digit == '1') numbers += digit;
  return numbers;
}

char* memory(unsigned long long pointer) { return reinterpret_cast<char*>(pointer); }

int write_uuid(Uuid* uuid, int device) {
  uuid->bytes.fill(static_cast<unsigned char>(visible()[static_cast<std::size_t>(device)]));
  return 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
int cuGetErrorName(int code, const char** name) {
  *name = code == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(visible().size());
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU");
  return 0;
}
int cuDeviceGetUuid(Uuid* uuid, int device) { return write_uuid(uuid, device); }
int cuDeviceGetUuid_v2(Uuid* uuid, int device) { return write_uuid(uuid, device); }
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int, int) {
  *value = 9;
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:e%c:00.0",
                visible()[static_cast<std::size_t>(device)]);
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int, int) {
  *can = is("apart") ? 0 : 1;
  return 0;
}
int cuDevicePrimaryCtxRetain(Context* context, int device) {
  static char contexts[2];
  *context = reinterpret_cast<Context>(&contexts[device]);
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(Context) { return 0; }
int cuCtxEnablePeerAccess(Context, unsigned) { return 0; }
int cuCtxSynchronize() { return 0; }
int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
  if (is("full")) return out_of_memory;
  *pointer = reinterpret_cast<unsigned long long>(std::malloc(bytes));
  return 0;
}
int cuMemFree_v2(unsigned long long pointer) {
  std::free(memory(pointer));
  return 0;
}
int cuMemsetD8_v2(unsigned long long pointer, unsigned char value, std::size_t bytes) {
  std::memset(memory(pointer), value, bytes);
  return 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  std::memcpy(memory(to), from, bytes);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  std::memcpy(to, memory(from), bytes);
  return 0;
}
// No memory that it is asked about is its own.
int cuPointerGetAttributes(unsigned, int*, void**, unsigned long long) { return 0; }
int cuMemcpyPeer(unsigned long long to, Context to_context, unsigned long long from,
                 Context from_context, std::size_t bytes) {
  std::memcpy(memory(to), memory(from), bytes);
  if (is("wrong") && to_context != from_context) memory(to)[bytes / 2] ^= 1;
  return 0;
}

}  // extern "C"
