// The C API: buffers that NCCL knows.
#include <fmt/format.h>

#include "hymn/hymn_buffer.h"
#include "runtime/c_api/c_api.hpp"

struct hymnBuffer {
  hymn::RegisteredBuffer buffer;
};

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::RegisteredBuffer;
using hymn::Registration;

namespace {

Registration registration_of(hymnRegistration_t how) {
  switch (how) {
    case hymnRegistrationLocal:
      return Registration::local;
    case hymnRegistrationWindow:
      return Registration::window;
  }
  throw hymn::UsageError(fmt::format("{} is not a hymnRegistration_t", static_cast<int>(how)));
}

/// Gives what `make(group)` returns to the caller.
template <class Make>
hymnResult_t make_buffer(const char* function, hymnGroup_t group, hymnBuffer_t* buffer,
                         Make&& make) {
  return guarded(function, [&] {
    *need(buffer, "buffer") = nullptr;
    auto handle = std::make_unique<hymnBuffer>();
    handle->buffer = make(need(group, "group")->group);
    *buffer = handle.release();
  });
}

template <class T, class Get>
hymnResult_t query_buffer(const char* function, hymnBuffer_t buffer, T* result, const char* name,
                          Get&& get) {
  return guarded(function, [&] { *need(result, name) = get(need(buffer, "buffer")->buffer); });
}

}  // namespace

hymnResult_t hymnBufferRegister(hymnGroup_t group, void* data, size_t bytes, hymnRegistration_t how,
                                hymnBuffer_t* buffer) {
  return make_buffer(__func__, group, buffer, [&](hymn::ProcessGroup& of) {
    return of.register_buffer(data, bytes, registration_of(how));
  });
}

hymnResult_t hymnBufferAllocate(hymnGroup_t group, size_t bytes, hymnRegistration_t how,
                                hymnBuffer_t* buffer) {
  return make_buffer(__func__, group, buffer, [&](hymn::ProcessGroup& of) {
    return of.allocate_registered(bytes, registration_of(how));
  });
}

hymnResult_t hymnBufferData(hymnBuffer_t buffer, void** data) {
  return query_buffer(__func__, buffer, data, "data",
                      [](const RegisteredBuffer& of) { return of.data(); });
}

hymnResult_t hymnBufferBytes(hymnBuffer_t buffer, size_t* bytes) {
  return query_buffer(__func__, buffer, bytes, "bytes",
                      [](const RegisteredBuffer& of) { return of.bytes(); });
}

hymnResult_t hymnBufferIsRegistered(hymnBuffer_t buffer, int* is_registered) {
  return query_buffer(__func__, buffer, is_registered, "is_registered",
                      [](const RegisteredBuffer& of) { return of.is_registered() ? 1 : 0; });
}

hymnResult_t hymnBufferFree(hymnBuffer_t buffer) {
  return guarded(__func__, [&] {
    const std::unique_ptr<hymnBuffer> handle(need(buffer, "buffer"));
    handle->buffer.release();
  });
}
