// Whose call of MPI it is: the program's, or one made on the way of another.
#pragma once

#include <cstdint>

namespace hymn::preload {

/// Calls that this thread makes meanwhile are nobody's business: they are MPI's own, of its layers
/// for files for example, hymn's, or of functions of the program that MPI calls.
class Inside {
 public:
  using Act = void (*)();

  Inside() noexcept { ++depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    if (--depth_ == 0 && at_end_ != nullptr) [[unlikely]]
      end();
  }

  static bool is_on() noexcept { return depth_ != 0; }
  /// Is called when the program's call, in which this thread is, has ended; one function for all.
  static void at_end(Act act) noexcept { at_end_ = act; }

 private:
  static void end();

  constinit static thread_local int depth_;
  constinit static thread_local Act at_end_;
};

struct CodeRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool has(std::uintptr_t address) const { return address - begin < end - begin; }
};
/// Where libhymn.so's code lies, once find_hymn() has been called.
extern constinit CodeRange code_of_hymn;
void find_hymn() noexcept;

/// Whether the code at this address is libhymn.so's: a program may use hymn itself, and hymn has
/// threads of its own.
inline bool is_hymn(const void* address) noexcept {
  return code_of_hymn.has(reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace hymn::preload
