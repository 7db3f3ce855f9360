// Buffers and tags of a group's messages as what a ShmMail sends and receives.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "p2p/lost_message.hpp"
#include "p2p/message_port.hpp"
#include "p2p/shm/shm_mail.hpp"

namespace hymn {

inline std::uint64_t mail_tag(MessageTag tag) {
  return tag.packed(ring_tag_bits - 1) | (tag.user ? user_mail_tag : 0);
}

/// Where such a message is: aborts the channel.
inline std::unique_ptr<AbandonedOperation> give_up(ShmMail& mail,
                                                   const std::string& reason) noexcept {
  mail.channel().abort(reason);
  return std::make_unique<LostMessage>();
}

inline void set(Sending& message, int peer, MessageTag tag, const ConstBufferView& view) {
  message.to = peer;
  message.tag = mail_tag(tag);
  message.data = static_cast<const std::byte*>(view.data);
  message.bytes = view.bytes();
}

inline void set(Receiving& receive, int peer, MessageTag tag, const BufferView& view) {
  receive.from = peer;
  receive.tag = mail_tag(tag);
  receive.data = static_cast<std::byte*>(view.data);
  receive.room = view.bytes();
}

inline RecvStatus status_of(const Receiving& receive, std::size_t element_bytes) {
  return {.source = receive.source,
          .tag = static_cast<int>(receive.tag & (user_mail_tag - 1)),
          .count = receive.bytes / std::max<std::size_t>(element_bytes, 1)};
}

/// Of a message that waits: its bytes are counted.
inline RecvStatus status_of(const MailNotice& notice, std::uint64_t tag) {
  return {.source = notice.source,
          .tag = static_cast<int>(tag & (user_mail_tag - 1)),
          .count = notice.bytes};
}

}  // namespace hymn
