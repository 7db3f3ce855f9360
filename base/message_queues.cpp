#include "base/message_queues.hpp"

#include <algorithm>

namespace hymn {

void MessageQueues::add(std::uint64_t tag, ExchangeMessage message) {
  by_tag_[tag].push_back(std::move(message));
  ++size_;
}

std::optional<ExchangeMessage> MessageQueues::take(int from, std::uint64_t tag) {
  const auto queue = by_tag_.find(tag);
  if (queue == by_tag_.end()) return std::nullopt;
  auto& messages = queue->second;
  const auto wanted = std::find_if(messages.begin(), messages.end(), [from](const auto& message) {
    return from == Exchange::from_anyone || message.source == from;
  });
  if (wanted == messages.end()) return std::nullopt;
  ExchangeMessage message = std::move(*wanted);
  messages.erase(wanted);
  --size_;
  if (messages.empty()) by_tag_.erase(queue);
  return message;
}

}  // namespace hymn
