// What a command throws when it cannot do what its arguments say: exit code 2.
#pragma once

#include <stdexcept>

namespace hymn {

/// Arguments that cannot be used. All ranks see the same arguments, so only rank 0 says so.
class BadArguments : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hymn
