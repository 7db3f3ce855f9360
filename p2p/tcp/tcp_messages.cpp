#include "p2p/tcp/tcp_messages.hpp"

#include <algorithm>

namespace hymn::tcp {

// One that has come up to the beginning of another, which still comes, leaves it at that: the
// other one says the rest at its end.
void Incoming::arrive(std::uint64_t begin, std::uint64_t end, bool whole) {
  if (begin > come) {
    if (whole) beyond[begin] = end;
  } else {
    come = std::max(come, end);
    for (; !beyond.empty() && beyond.begin()->first <= come; beyond.erase(beyond.begin()))
      come = std::max(come, beyond.begin()->second);
  }
  reached = std::max(reached, end);
}

void Incoming::forget_what_is_beyond() {
  beyond.clear();
  reached = come;
}

}  // namespace hymn::tcp
