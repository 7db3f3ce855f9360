// A process, and the children made by fork() that have a copy of its memory: what is a rank's
// belongs to the process that made it, and a child must leave it alone.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/private.hpp"

namespace hymn {

/// Another number in a child made by fork() than in its parent. Costs a load.
HYMN_PRIVATE unsigned fork_count() noexcept;

/// The process that something was made in.
class OwnProcess {
 public:
  OwnProcess() noexcept : forks_(fork_count()) {}
  /// False in a child made by fork() since.
  bool is_this() const noexcept { return forks_ == fork_count(); }

 private:
  unsigned forks_;
};

/// While it lives, `in_child` is called in every child made by fork(), before fork() returns there.
/// It runs on the only thread that there is; locks may be held for ever by threads that are not.
class ForkWatch {
 public:
  HYMN_PRIVATE explicit ForkWatch(std::function<void()> in_child);
  ForkWatch(const ForkWatch&) = delete;
  ForkWatch& operator=(const ForkWatch&) = delete;
  HYMN_PRIVATE ~ForkWatch();

 private:
  friend class ForkWatches;
  std::function<void()> in_child_;
};

/// Ends what it holds, but not in a child: there it would wait for threads that do not exist, and
/// tell the peers of the parent that it ends.
struct EndHere {
  OwnProcess maker{};
  template <class T>
  void operator()(T* thing) const {
    if (maker.is_this()) delete thing;
  }
};

/// As std::make_shared, for what a child must not end.
template <class T, class... Args>
std::shared_ptr<T> make_shared_here(Args&&... args) {
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), EndHere());
}

/// As std::make_unique, for what a child must not end.
template <class T>
using UniqueHere = std::unique_ptr<T, EndHere>;

}  // namespace hymn
