#include "collectives/cuda/message_channel.hpp"

#include <algorithm>
#include <utility>

namespace hymn {
namespace {

using cuda::MessagesCall;

/// Sorted by lines, on each in the order in which they are given; returns how many lines they are.
unsigned sort_into(MessagesCall& call, std::span<const MessageChannel::Message> messages) {
  unsigned lines = 0;
  std::uint16_t count = 0;
  for (auto first = messages.begin(); first != messages.end(); ++first) {
    const auto is_of_line = [&first](const MessageChannel::Message& other) {
      return other.peer == first->peer && other.is_send == first->is_send;
    };
    if (std::any_of(messages.begin(), first, is_of_line)) continue;
    MessagesCall::Line& line = call.lines[lines++];
    line.peer = static_cast<std::uint16_t>(first->peer);
    line.is_send = first->is_send ? 1 : 0;
    line.first = count;
    for (const MessageChannel::Message& message : messages)
      if (is_of_line(message))
        call.messages[count++] = {static_cast<std::byte*>(message.data), message.bytes};
    line.end = count;
  }
  return lines;
}

}  // namespace

MessageChannel::~MessageChannel() {
  for (auto& both : lines_)
    for (const Line& line : both) {
      if (line.last != nullptr) gpu().give_back(line.last);
      if (line.stream != nullptr) gpu().destroy_stream(line.stream);
    }
}

cuda_api::Stream MessageChannel::stream(int peer, bool is_send) {
  std::lock_guard lock(mutex_);
  Line& wanted = line(peer, is_send);
  if (wanted.stream == nullptr)
    wanted.stream = gpu().make_stream(staging_buffers_->parts().high_priority);
  return wanted.stream;
}

void MessageChannel::launch(std::span<const Message> messages, cuda_api::Stream stream,
                            bool is_captured) {
  for (std::size_t done = 0; done < messages.size(); done += cuda::most_messages)
    launch_at_once(
        messages.subspan(done, std::min<std::size_t>(messages.size() - done, cuda::most_messages)),
        stream, is_captured);
}

void MessageChannel::launch_at_once(std::span<const Message> messages, cuda_api::Stream stream,
                                    bool is_captured) {
  MessagesCall call{};
  const unsigned count = sort_into(call, messages);
  const auto for_each_line = [&](auto act) {
    for (const MessagesCall::Line& each : std::span(call.lines, count))
      act(line(each.peer, each.is_send != 0));
  };
  for_each_line([&](Line& used) {
    if (used.last != nullptr && !is_captured && stream != used.last_stream)
      gpu().wait_on(stream, used.last);
  });
  staging_buffers_->launch(call, count, stream, is_captured);
  for_each_line([&](Line& used) {
    if (used.last != nullptr) gpu().give_back(std::exchange(used.last, nullptr));
    if (!is_captured) used.last = gpu().mark(stream);
    used.last_stream = stream;
  });
}

}  // namespace hymn
