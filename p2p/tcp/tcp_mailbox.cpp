#include "p2p/tcp/tcp_mailbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "hymn/error.hpp"
#include "hymn/request.hpp"

namespace hymn::tcp {

void Mailbox::post(Receiving& receive) {
  receive.place = ++places_;
  if (!take_arrived(receive)) posted_[{receive.tag, receive.from}].push_back(&receive);
}

bool Mailbox::take_arrived(Receiving& receive) {
  const auto found = find_arrived(receive.from, receive.tag);
  if (found == arrived_.end()) return false;
  Queue& queue = arrived_.at(found->first);
  const std::shared_ptr<Incoming> message = std::move(queue.front());
  queue.pop_front();
  if (queue.empty()) arrived_.erase(found);
  give(message, receive);
  return true;
}

void Mailbox::arrive(const std::shared_ptr<Incoming>& message) {
  message->box = this;
  message->place = ++places_;
  if (Receiving* const receive = take_posted(*message)) return give(message, *receive);
  if (const std::uint64_t unasked = message->is_long ? message->ahead : message->bytes)
    message->parcel = std::make_unique_for_overwrite<std::byte[]>(unasked);
  arrived_[{message->tag, message->source}].push_back(message);
}

// Of the one that names its sender and the one that takes any the one that was posted first.
Receiving* Mailbox::take_posted(const Incoming& message) {
  const auto named = posted_.find({message.tag, message.source});
  const auto any = posted_.find({message.tag, any_source});
  auto chosen = named != posted_.end() ? named : any;
  if (chosen == posted_.end()) return nullptr;
  if (any != posted_.end() && any->second.front()->place < chosen->second.front()->place)
    chosen = any;
  Receiving* const receive = chosen->second.front();
  chosen->second.pop_front();
  if (chosen->second.empty()) posted_.erase(chosen);
  return receive;
}

std::map<Mailbox::Key, Mailbox::Queue>::const_iterator Mailbox::find_arrived(
    int from, std::uint64_t tag) const {
  if (from != any_source) return arrived_.find({tag, from});
  auto first = arrived_.end();
  for (auto queue = arrived_.lower_bound({tag, any_source});
       queue != arrived_.end() && queue->first.first == tag; ++queue)
    if (first == arrived_.end() || queue->second.front()->place < first->second.front()->place)
      first = queue;
  return first;
}

const Incoming* Mailbox::probe(int from, std::uint64_t tag) const {
  const auto found = find_arrived(from, tag);
  return found == arrived_.end() ? nullptr : found->second.front().get();
}

void Mailbox::give(const std::shared_ptr<Incoming>& message, Receiving& receive) {
  receive.source = message->source;
  receive.bytes = message->bytes;
  if (message->bytes > receive.room) {
    drop(*message);
    return post_.finish(receive);
  }
  message->receive = &receive;
  if (message->parcel && message->come != 0)
    std::memcpy(receive.data, message->parcel.get(), message->come);
  message->parcel.reset();
  if (message->is_whole()) return complete(*message);
  coming_.push_back(message);
  if (message->is_long && !message->granted) post_.want(*message);
}

void Mailbox::complete(Incoming& message) {
  if (message.receive == nullptr) return;  // it waits for one
  Receiving& receive = *message.receive;
  message.receive = nullptr;
  message.box = nullptr;
  coming_.remove_if([&message](const auto& one) { return one.get() == &message; });
  post_.settle(message);
  post_.finish(receive);
}

void Mailbox::cancel(const std::shared_ptr<Incoming>& message) {
  message->box = nullptr;
  Receiving* const receive = std::exchange(message->receive, nullptr);
  if (receive == nullptr) {
    const auto queue = arrived_.find({message->tag, message->source});
    if (queue == arrived_.end()) return;
    queue->second.remove(message);
    if (queue->second.empty()) arrived_.erase(queue);
    return;
  }
  coming_.remove(message);
  if (message->come == message->ahead) return post_again(*receive);
  receive->error = std::make_exception_ptr(
      AbortedError(fmt::format("rank {} has given up a message of {} bytes of which {} had come",
                               message->source, message->bytes, message->come)));
  post_.finish(*receive);
}

// Where it was: before all that match the same and were posted later.
void Mailbox::post_again(Receiving& receive) {
  if (!take_arrived(receive)) posted_[{receive.tag, receive.from}].push_front(&receive);
}

bool Mailbox::withdraw(Receiving& receive, bool keep) noexcept {
  if (const auto queue = posted_.find({receive.tag, receive.from}); queue != posted_.end()) {
    const bool was_there = queue->second.remove(&receive) != 0;
    if (queue->second.empty()) posted_.erase(queue);
    if (was_there) return true;
  }
  const auto found = std::ranges::find_if(
      coming_, [&receive](const auto& one) { return one->receive == &receive; });
  if (found == coming_.end()) return true;
  const std::shared_ptr<Incoming> message = std::move(*found);
  coming_.erase(found);
  message->receive = nullptr;
  if (keep && put_back(message, receive.data)) return true;
  drop(*message);
  return !keep;
}

// All others that could match the same receives came later: an earlier one would have been taken.
bool Mailbox::put_back(const std::shared_ptr<Incoming>& message, const std::byte* data) noexcept {
  try {
    if (!message->parcel) {
      message->parcel = std::make_unique_for_overwrite<std::byte[]>(message->bytes);
      if (message->come != 0) std::memcpy(message->parcel.get(), data, message->come);
    }
    message->place = --first_place_;
    if (Receiving* const next = take_posted(*message))
      give(message, *next);
    else
      arrived_[{message->tag, message->source}].push_front(message);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool Mailbox::put_back(const Receiving& receive) noexcept {
  if (receive.error || receive.bytes > receive.room) return true;
  try {
    auto message = std::make_shared<Incoming>();
    message->source = receive.source;
    message->tag = receive.tag;
    message->bytes = receive.bytes;
    message->come = receive.bytes;
    message->box = this;
    return put_back(message, receive.data);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void Mailbox::drop(Incoming& message) {
  message.box = nullptr;
  message.receive = nullptr;
  message.parcel.reset();
  post_.settle(message);
}

std::size_t Mailbox::close() {
  std::size_t dropped = 0;
  for (auto& [key, queue] : arrived_)
    for (const auto& message : queue) {
      ++dropped;
      drop(*message);
    }
  for (const auto& message : coming_) drop(*message);
  arrived_.clear();
  coming_.clear();
  posted_.clear();
  return dropped;
}

}  // namespace hymn::tcp
