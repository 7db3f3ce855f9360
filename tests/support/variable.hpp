// A variable of the environment, for as long as the object lives.
#pragma once

#include <cstdlib>

namespace hymn::test {

/// Every world that is made while it lives reads this value.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace hymn::test
