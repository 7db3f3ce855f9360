// Where the C API and the C++ API meet: the objects behind handles, handles of objects, and what a
// library needs that has a C interface of its own beside hymn's (docs/c-api.md).
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstring>
#include <exception>
#include <vector>

#include "hymn/buffer.hpp"
#include "hymn/hymn.h"
#include "hymn/hymn_join.h"
#include "hymn/hymn_sparse.h"
#include "hymn/join.hpp"
#include "hymn/process_group.hpp"
#include "hymn/sparse.hpp"
#include "hymn/work.hpp"

namespace hymn {

/// What is behind a handle, which stays the caller's. UsageError: NULL.
HYMN_API ProcessGroup group_of(hymnGroup_t handle);
HYMN_API Work work_of(hymnWork_t handle);
/// A new handle, which hymnGroupFree frees; that does not end the group, as others have it, too.
HYMN_API hymnGroup_t handle_of(const ProcessGroup& group);
/// A new handle, which hymnWorkFree frees.
HYMN_API hymnWork_t handle_of(const Work& work);
/// For hymnJoinCreate. The joinable must live as long as the join.
HYMN_API hymnJoinable_t joinable_of(Joinable& joinable);

/// A flat view of what a pointer, a count and a type in C mean, and what C calls a view's type.
/// UsageError: no type of either.
HYMN_API BufferView view_of_c(void* data, std::size_t count, hymnDataType_t dtype);
HYMN_API hymnDataType_t c_type_of(const BufferView& view);

/// The same of sparse tensors; what is got points into the tensor.
HYMN_API SparseView view_of_c(const hymnSparse_t& tensor);
HYMN_API hymnSparse_t c_view_of(const SparseTensor& tensor);

/// How hymn's own functions in C are written: no exception leaves one, and structs of options grow.
namespace c_api {

/// Of any exception: its code, with its text, after `function`, as hymnGetLastError() of this
/// thread.
HYMN_API hymnResult_t record_failure(const char* function,
                                     const std::exception_ptr& error) noexcept;
/// What a function of the caller's has returned, as an exception where it has failed.
HYMN_API void require_success(const char* function, hymnResult_t code);
[[noreturn]] HYMN_API void throw_null(const char* name);
[[noreturn]] HYMN_API void throw_size(const char* argument, const char* type, std::size_t given,
                                      std::size_t known);

/// Runs `body`; no exception gets past it.
template <class Body>
hymnResult_t guarded(const char* function, Body&& body) noexcept {
  try {
    body();
    return hymnSuccess;
  } catch (...) {
    return record_failure(function, std::current_exception());
  }
}

/// Copies what the caller's version of a struct of options has; fields it does not know are 0.
template <class Options>
Options read_options(const Options* given, const char* type, const char* argument = "options") {
  Options options{};
  if (given == nullptr) return options;
  if (given->size < sizeof(std::size_t) || given->size > sizeof(Options))
    throw_size(argument, type, given->size, sizeof(Options));
  std::memcpy(&options, given, given->size);
  return options;
}

/// The same of an array of them, each as long as its first says.
template <class Options>
std::vector<Options> read_array(const Options* given, std::size_t n, const char* type,
                                const char* argument) {
  std::vector<Options> all;
  const auto* next = reinterpret_cast<const std::byte*>(given);
  for (std::size_t i = 0; i < n; ++i) {
    all.push_back(read_options(reinterpret_cast<const Options*>(next), type, argument));
    next += given->size;
  }
  return all;
}

/// The argument called `name`, which must not be null.
template <class T>
T* need(T* pointer, const char* name) {
  if (pointer == nullptr) throw_null(name);
  return pointer;
}

}  // namespace c_api
}  // namespace hymn
