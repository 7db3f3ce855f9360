// Limits of resources, changed for a while.
#pragma once

#include <sys/resource.h>

#include <stdexcept>

namespace hymn::test {

/// Another limit of this process while it lives. Where it is low: sanitizers, too, need descriptors
/// to report.
class Limit {
 public:
  Limit(decltype(RLIMIT_AS) what, rlim_t value) : what_(what) {
    getrlimit(what_, &before_);
    const rlimit other{value, before_.rlim_max};
    if (setrlimit(what_, &other) != 0) throw std::runtime_error("the limit cannot be set");
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { setrlimit(what_, &before_); }

 private:
  decltype(RLIMIT_AS) what_;
  rlimit before_{};
};

}  // namespace hymn::test
