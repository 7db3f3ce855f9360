// Messages of a group whose members share memory.
#pragma once

#include "p2p/message_port.hpp"
#include "p2p/shm/shm_mail.hpp"

namespace hymn {

/// The channel behind the mail covers the whole group.
std::shared_ptr<MessagePort> make_shm_port(std::shared_ptr<ShmMail> mail);

}  // namespace hymn
