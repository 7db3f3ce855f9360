// Limits of resources, lowered for a while.
#pragma once

#include <sys/resource.h>

#include <stdexcept>

namespace hymn::test {

/// Lowers a limit of this process while it lives: sanitizers, too, need descriptors to report.
class Limit {
 public:
  Limit(decltype(RLIMIT_AS) what, rlim_t value) : what_(what) {
    getrlimit(what_, &before_);
    const rlimit low{value, before_.rlim_max};
    if (setrlimit(what_, &low) != 0) throw std::runtime_error("the limit cannot be set");
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { setrlimit(what_, &before_); }

 private:
  decltype(RLIMIT_AS) what_;
  rlimit before_{};
};

}  // namespace hymn::test
