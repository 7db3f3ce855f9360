// A program that is linked with create_group.cpp sees each MPI_Comm_create_group that hymn calls.
#pragma once

#include <atomic>
#include <functional>

namespace hymn::test {

/// What the program wants of it; `before` and `after` run on the thread that calls.
struct CreateGroup {
  std::atomic<int> calls{0};
  std::function<void()> before = [] {};
  std::function<void()> after = [] {};
};

CreateGroup& create_group();

/// How many communicators `make` makes.
int communicators_made_by(const std::function<void()>& make);

}  // namespace hymn::test
