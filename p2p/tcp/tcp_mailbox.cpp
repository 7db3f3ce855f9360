#include "p2p/tcp/tcp_mailbox.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "hymn/error.hpp"
#include "hymn/request.hpp"

namespace hymn::tcp {
namespace {

// There are no empty lists, also where it throws for want of memory.
template <class List>
void put_first(std::map<std::pair<std::uint64_t, int>, List>& lists, std::uint64_t tag, int from,
               List& one) {
  List& list = lists[{tag, from}];
  list.splice(list.begin(), one);
}

template <class List>
void put_last(std::map<std::pair<std::uint64_t, int>, List>& lists, std::uint64_t tag, int from,
              List& one) {
  List& list = lists[{tag, from}];
  list.splice(list.end(), one);
}

}  // namespace

void Mailbox::post(Receiving& receive) {
  receive.place = ++places_;
  if (take_arrived(receive)) return;
  std::list one{&receive};
  put_last(posted_, receive.tag, receive.from, one);
}

bool Mailbox::take_arrived(Receiving& receive) {
  const auto found = find_arrived(receive.from, receive.tag);
  if (found == arrived_.end()) return false;
  Queue& queue = arrived_.at(found->first);
  Queue one;
  one.splice(one.begin(), queue, queue.begin());
  if (queue.empty()) arrived_.erase(found);
  give(std::move(one), receive);
  return true;
}

void Mailbox::arrive(const std::shared_ptr<Incoming>& message) {
  message->box = this;
  message->place = ++places_;
  Queue one{message};
  if (Receiving* const receive = take_posted(*message)) return give(std::move(one), *receive);
  if (const std::uint64_t unasked = message->is_long ? message->ahead : message->bytes)
    message->parcel = std::make_unique_for_overwrite<std::byte[]>(unasked);
  put_last(arrived_, message->tag, message->source, one);
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

void Mailbox::give(Queue one, Receiving& receive) {
  const std::shared_ptr<Incoming> message = one.front();
  receive.source = message->source;
  receive.bytes = message->bytes;
  if (message->bytes > receive.room) {
    drop(*message);
    return post_.finish(receive);
  }
  message->receive = &receive;
  if (message->parcel && message->reached != 0)
    std::memcpy(receive.data, message->parcel.get(), message->reached);
  message->parcel.reset();
  if (message->is_whole()) return complete(*message);
  coming_.splice(coming_.end(), one);
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
  if (!message->begun) return post_again(*receive);
  receive->error = std::make_exception_ptr(
      AbortedError(fmt::format("rank {} has given up a message of {} bytes of which {} had come",
                               message->source, message->bytes, message->come)));
  post_.finish(*receive);
}

// Where it was: before all that match the same and were posted later.
void Mailbox::post_again(Receiving& receive) {
  if (take_arrived(receive)) return;
  std::list one{&receive};
  put_first(posted_, receive.tag, receive.from, one);
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
  const std::shared_ptr<Incoming> message = *found;
  Queue one;
  one.splice(one.begin(), coming_, found);
  message->receive = nullptr;
  if (keep && put_back(one, receive.data)) return true;
  drop(*message);
  return !keep;
}

// All others that could match the same receives came later: an earlier one would have been taken.
bool Mailbox::put_back(Queue& one, const std::byte* data) noexcept {
  const std::shared_ptr<Incoming> message = one.front();
  try {
    if (!message->parcel) {
      message->parcel = std::make_unique_for_overwrite<std::byte[]>(message->bytes);
      if (message->reached != 0) std::memcpy(message->parcel.get(), data, message->reached);
    }
    message->place = --first_place_;
    if (Receiving* const next = take_posted(*message))
      give(std::move(one), *next);
    else
      put_first(arrived_, message->tag, message->source, one);
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
    message->arrive(0, receive.bytes, true);
    message->box = this;
    Queue one{std::move(message)};
    return put_back(one, receive.data);
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
