// Whose call of MPI it is: the program's, or one made on the way of another.
#pragma once

namespace hymn::preload {

/// Calls that this thread makes meanwhile are nobody's business: they are MPI's own, of its layers
/// for files for example, hymn's, or of functions of the program that MPI calls.
class Inside {
 public:
  Inside() noexcept { ++depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --depth_; }

  static bool is_on() noexcept { return depth_ != 0; }

 private:
  constinit static thread_local int depth_;
};

/// Whether the code at this address is libhymn.so's: a program may use hymn itself, and hymn has
/// threads of its own.
bool is_hymn(const void* address) noexcept;

}  // namespace hymn::preload
