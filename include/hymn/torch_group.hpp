// A group as the headers torch_*.hpp take it: a handle of the C API, or a ProcessGroup.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "hymn/hymn.h"
#include "hymn/torch_error.hpp"
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
  /// This rank's place in the group, from 0.
  int rank() const { return ask(&hymnGroupRank); }
  int size() const { return ask(&hymnGroupSize); }
  /// The number that a member is known by, as a root and in errors.
  int global_rank(int group_rank) const {
    int rank = 0;
    detail::check_own(hymnGroupToGlobal(handle(), group_rank, &rank));
    return rank;
  }
  void barrier() const { detail::check_own(hymnBarrier(handle(), nullptr)); }

 private:
  int ask(hymnResult_t (*question)(hymnGroup_t, int*)) const {
    int answer = 0;
    detail::check_own(question(handle(), &answer));
    return answer;
  }

  std::shared_ptr<std::remove_pointer_t<hymnGroup_t>> handle_;
};

namespace detail {

/// Runs `prepare` on all ranks: where it throws on one of them, all throw.
template <class Prepare>
void together(const Group& group, Prepare prepare) {
  std::exception_ptr error;
  try {
    prepare();
  } catch (...) {
    error = std::current_exception();
  }
  const unsigned char failed = error ? 1 : 0;
  std::vector<unsigned char> all(static_cast<std::size_t>(group.size()));
  check_own(hymnAllGather(&failed, all.data(), 1, hymnUint8, group.handle(), nullptr));
  if (error) std::rethrow_exception(error);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == 0) continue;
    throw Error(hymnUsageError, "rank " + std::to_string(group.global_rank(static_cast<int>(i))) +
                                    " cannot take part: its own error says why");
  }
}

}  // namespace detail
}  // namespace hymn::torch
