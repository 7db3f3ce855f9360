// A group as the headers torch_*.hpp take it: a handle of the C API, or a ProcessGroup.
#pragma once

#include "hymn/standard.hpp"  // first

#include <memory>
#include <type_traits>

#include "hymn/hymn.h"
#include "hymn/torch_tensors.hpp"
#if _GLIBCXX_USE_CXX11_ABI
#include "hymn/interop_c.hpp"  // of the C++ API, which has this ABI
#endif

namespace hymn::torch {

class Group {
 public:
  /// The handle stays the caller's, who frees it when nothing uses this any more.
  Group(hymnGroup_t handle) : handle_(handle, [](hymnGroup_t) {}) {}  // NOLINT: it is one
#if _GLIBCXX_USE_CXX11_ABI
  Group(const ProcessGroup& group)  // NOLINT: it is one
      : handle_(handle_of(group), [](hymnGroup_t handle) { hymnGroupFree(handle); }) {}
#endif

  hymnGroup_t handle() const { return handle_.get(); }
  int size() const {
    int size = 0;
    check(hymnGroupSize(handle(), &size));
    return size;
  }

 private:
  std::shared_ptr<std::remove_pointer_t<hymnGroup_t>> handle_;
};

}  // namespace hymn::torch
