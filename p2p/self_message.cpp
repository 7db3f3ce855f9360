#include "p2p/self_message.hpp"

#include "p2p/copy_bytes.hpp"

namespace hymn {

void SelfRecv::start() {
  if (in_.bytes() != 0 && in_.data != out_.data)
    copy_bytes(out_.data, in_.data, in_.bytes(), false);
}

}  // namespace hymn
