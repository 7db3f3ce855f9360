// Messages of a group whose members share memory.
#pragma once

#include "collectives/pairwise/message_port.hpp"
#include "collectives/shm/shm_mail.hpp"

namespace hymn {

/// The channel behind the mail covers the whole group.
std::shared_ptr<MessagePort> make_shm_port(std::shared_ptr<ShmMail> mail);

/// send and recv without touching the heap.
std::unique_ptr<Algorithm> make_send_recv_rings(std::shared_ptr<ShmMail> mail);

}  // namespace hymn
