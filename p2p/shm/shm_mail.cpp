#include "p2p/shm/shm_mail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include "hymn/error.hpp"
#include "hymn/request.hpp"
#include "p2p/copy_bytes.hpp"
#include "p2p/shm/ring_pipes.hpp"

namespace hymn {

void MailLock::lock() noexcept {
  while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
}

void Receiving::check() const {
  if (bytes > room)
    throw UsageError(
        fmt::format("group rank {} sent {} bytes to a buffer of {} bytes", source, bytes, room),
        {.remedy = "give the same count and dtype on both sides"});
}

ShmMail::ShmMail(std::shared_ptr<ShmChannel> channel, RingAreas areas)
    : channel_(std::move(channel)), areas_(areas), pipes_(*channel_, areas) {}

ShmMail::~ShmMail() = default;

void ShmMail::make_boxes() {
  const int me = channel_->rank();
  out_.resize(static_cast<std::size_t>(channel_->size()));
  in_.resize(out_.size());
  for (int member = 0; member < channel_->size(); ++member) {
    if (member == me) continue;
    const auto index = static_cast<std::size_t>(member);
    const SharedRegion& region = channel_->region();
    out_[index].writer = RingWriter(RingMemory::of(region, areas_, me, member));
    in_[index].reader = RingReader(RingMemory::of(region, areas_, member, me));
  }
}

// A thread that sleeps in another operation of this rank is told.
template <class Node>
void ShmMail::finish(Node& node, const Node* mine) {
  if constexpr (std::is_same_v<Node, Receiving>) {
    // Each source in turn is looked at first, so that none is passed over for ever: by receives
    // that name what a probe has found, too.
    if (node.from == any_source || (node.tag & user_mail_tag) != 0)
      next_source_ = static_cast<std::size_t>(node.source) + 1;
  }
  if (&node == mine)
    node.done.store(1, std::memory_order_release);
  else
    channel_->publish(node.done, std::uint32_t{1});
}

// --- Out ---

void ShmMail::start(Sending& message) {
  std::lock_guard lock(lock_);
  need_boxes();
  Outbox& out = out_[static_cast<std::size_t>(message.to)];
  if (out.first == nullptr && push_message(out.writer, message)) {
    message.done.store(1, std::memory_order_release);
    return;
  }
  (out.first == nullptr ? out.first : out.last->next) = &message;
  out.last = &message;
}

bool ShmMail::step(Sending& message) {
  if (message.is_done()) return true;
  {
    std::lock_guard lock(lock_);
    push(out_[static_cast<std::size_t>(message.to)], &message);
  }
  if (message.is_done()) return true;
  channel_->throw_if_aborted();
  return false;
}

void ShmMail::push(Outbox& out, const Sending* mine) {
  std::size_t moved = 0;
  while (out.first != nullptr && moved < RingPipes::most_at_once) {
    Sending& sent = *out.first;
    const std::size_t before = sent.sent;
    if (!push_message(out.writer, sent)) return;
    moved += sent.bytes - before + ring_cell_bytes;
    out.first = sent.next;
    finish(sent, mine);  // nobody looks at it afterwards
  }
}

bool ShmMail::push_message(RingWriter& writer, Sending& message) {
  pipes_.reserve();
  if (writer.is_short(message.bytes)) {
    const RingFlag flag = writer.put(message.tag, message.data, message.bytes);
    if (!flag) return false;
    tell(flag);
    writer.prepare_next();
    return true;
  }
  if (!message.announced) {
    pipes_.choose(writer, message.bytes);
    const RingFlag flag = writer.announce(message.tag, message.data, message.bytes);
    if (!flag) return false;
    tell(flag);
    message.announced = true;
  }
  return pipes_.write(writer, message.data, message.bytes, message.sent);
}

bool ShmMail::withdraw(Sending& message) noexcept {
  std::lock_guard lock(lock_);
  Outbox& out = out_[static_cast<std::size_t>(message.to)];
  Sending* before = nullptr;
  for (Sending* node = out.first; node != nullptr; before = node, node = node->next) {
    if (node != &message) continue;
    (before == nullptr ? out.first : before->next) = node->next;
    if (out.last == node) out.last = before;
    return !message.announced;
  }
  return true;
}

// --- In ---

void ShmMail::start(Receiving& receive) {
  std::lock_guard lock(lock_);
  need_boxes();
  if (take_parcel(receive, &receive)) return;
  *end_of_awaited_ = &receive;
  end_of_awaited_ = &receive.next;
}

bool ShmMail::step(Receiving& receive) {
  if (!receive.is_done()) {
    std::lock_guard lock(lock_);
    if (receive.from != any_source) {
      pull(receive.from, &receive);
    } else {
      const std::size_t sources = in_.size();
      for (std::size_t i = 0; i < sources && !receive.is_done(); ++i) {
        const std::size_t source = (next_source_ + i) % sources;
        if (static_cast<int>(source) != channel_->rank()) pull(static_cast<int>(source), &receive);
      }
    }
  }
  if (receive.is_done()) {
    receive.check();
    return true;
  }
  channel_->throw_if_aborted();
  return false;
}

// Only while somebody waits for a message of this source: what nobody has asked for stays in the
// ring, and its sender is held back, unless it bars the way to what is asked for. Not for as long
// as anything comes: other threads wait for the lock.
void ShmMail::pull(int source, const Receiving* mine) {
  Inbox& in = in_[static_cast<std::size_t>(source)];
  MessageHead head;
  std::size_t moved = 0;
  while (moved < RingPipes::most_at_once) {
    if (in.in_message) {
      const std::size_t before = in.come;
      if (!pull_rest(in, mine)) return;
      moved += in.come - before;
    }
    if (!is_awaited(source) || !in.reader.look(head)) return;
    begin_message(source, head, mine);
    moved += head.is_long() ? 0 : head.bytes + ring_cell_bytes;
  }
}

bool ShmMail::pull_rest(Inbox& in, const Receiving* mine) {
  std::byte* to = in.receive != nullptr  ? in.receive->data
                  : in.parcel != nullptr ? in.parcel->data.get()
                                         : nullptr;
  if (!pipes_.read(in.reader, to, in.bytes, in.come)) return false;
  in.in_message = false;
  if (in.parcel != nullptr) std::exchange(in.parcel, nullptr)->is_whole = true;
  if (in.receive != nullptr) finish(*std::exchange(in.receive, nullptr), mine);
  return true;
}

void ShmMail::begin_message(int source, const MessageHead& head, const Receiving* mine) {
  Inbox& in = in_[static_cast<std::size_t>(source)];
  Receiving* const receive = take_match(source, head.tag);
  Parcel* const parcel = receive == nullptr ? &put_aside(source, head) : nullptr;
  std::byte* to = nullptr;
  if (receive != nullptr) {
    receive->source = source;
    receive->bytes = head.bytes;
    if (head.bytes <= receive->room) to = receive->data;
  } else {
    to = parcel->data.get();
  }
  if (head.is_long()) {
    tell(in.reader.open(head));
    in.in_message = true;
    in.bytes = head.bytes;
    in.come = 0;
    in.parcel = parcel;
    // A message that is too long is read to its end all the same, but goes nowhere.
    in.receive = to == nullptr ? nullptr : receive;
    if (receive != nullptr && to == nullptr) finish(*receive, mine);
    return;
  }
  tell(in.reader.take(head, to, to == nullptr ? 0 : head.bytes));
  if (receive != nullptr) finish(*receive, mine);
}

ShmMail::Parcel& ShmMail::put_aside(int source, const MessageHead& head) {
  try {
    Parcel parcel{source, head.tag, head.bytes, !head.is_long(), nullptr};
    parcel.data = std::make_unique_for_overwrite<std::byte[]>(head.bytes);
    Parcel& kept = parcels_.emplace_back(std::move(parcel));
    in_[static_cast<std::size_t>(source)].aside += kept.cost();
    return kept;
  } catch (const std::bad_alloc&) {
    throw ResourceError(
        fmt::format("no memory for {} bytes that group rank {} has sent", head.bytes, source),
        {.remedy = "receive messages in the order in which they are sent"});
  }
}

std::optional<MailNotice> ShmMail::probe(int from, std::uint64_t tag, PutAside how) {
  {
    std::lock_guard lock(lock_);
    need_boxes();
    const auto sources = static_cast<int>(in_.size());
    for (int i = 0; i < sources; ++i) {
      const int source = from != any_source ? from : (static_cast<int>(next_source_) + i) % sources;
      if (source != channel_->rank())
        if (const auto found = find_from(source, tag, how)) return found;
      if (from != any_source) break;
    }
  }
  channel_->throw_if_aborted();
  return std::nullopt;
}

// What comes first and is not asked for bars the way, and is put aside; what is asked for stays in
// the ring.
std::optional<MailNotice> ShmMail::find_from(int source, std::uint64_t tag, PutAside how) {
  for (const Parcel& parcel : parcels_)
    if (parcel.source == source && parcel.tag == tag) return MailNotice{source, parcel.bytes};
  Inbox& in = in_[static_cast<std::size_t>(source)];
  MessageHead head;
  std::size_t moved = 0;
  while (moved < RingPipes::most_at_once) {
    if (in.in_message && !pull_rest(in, nullptr)) return std::nullopt;
    if (!in.reader.look(head)) return std::nullopt;
    if (head.tag == tag && !has_match(source, tag)) return MailNotice{source, head.bytes};
    if (how == PutAside::some && in.aside > most_aside && !has_match(source, head.tag))
      return std::nullopt;
    begin_message(source, head, nullptr);
    moved += head.bytes + ring_cell_bytes;
  }
  return std::nullopt;
}

bool ShmMail::has_match(int source, std::uint64_t tag) const {
  for (const Receiving* node = first_awaited_; node != nullptr; node = node->next)
    if (node->tag == tag && (node->from == source || node->from == any_source)) return true;
  return false;
}

bool ShmMail::is_awaited(int source) const {
  for (const Receiving* node = first_awaited_; node != nullptr; node = node->next)
    if (node->from == source || node->from == any_source) return true;
  return false;
}

Receiving* ShmMail::take_match(int source, std::uint64_t tag) {
  for (Receiving** node = &first_awaited_; *node != nullptr; node = &(*node)->next) {
    Receiving* const receive = *node;
    if (receive->tag != tag || (receive->from != source && receive->from != any_source)) continue;
    take_out(node);
    return receive;
  }
  return nullptr;
}

void ShmMail::take_out(Receiving** place) {
  Receiving& taken = **place;
  *place = taken.next;
  if (end_of_awaited_ == &taken.next) end_of_awaited_ = place;
  taken.next = nullptr;
}

bool ShmMail::take_parcel(Receiving& receive, const Receiving* mine) {
  const auto parcel = std::find_if(parcels_.begin(), parcels_.end(), [&](const Parcel& candidate) {
    return candidate.tag == receive.tag &&
           (receive.from == any_source || receive.from == candidate.source);
  });
  if (parcel == parcels_.end()) return false;
  Inbox& in = in_[static_cast<std::size_t>(parcel->source)];
  const std::size_t come = parcel->is_whole ? parcel->bytes : in.come;
  receive.source = parcel->source;
  receive.bytes = parcel->bytes;
  const bool fits = parcel->bytes <= receive.room;
  if (fits && come != 0) copy_bytes(receive.data, parcel->data.get(), come, false);
  const bool whole = parcel->is_whole;
  if (!whole) {
    // The rest goes straight to where it belongs.
    in.parcel = nullptr;
    in.receive = fits ? &receive : nullptr;
  }
  in.aside -= parcel->cost();
  parcels_.erase(parcel);
  if (whole || !fits) finish(receive, mine);
  return true;
}

bool ShmMail::withdraw(Receiving& receive) noexcept {
  std::lock_guard lock(lock_);
  for (Receiving** node = &first_awaited_; *node != nullptr; node = &(*node)->next) {
    if (*node != &receive) continue;
    take_out(node);
    return true;
  }
  for (Inbox& in : in_)
    if (in.receive == &receive) return put_back(receive, &in);
  // Another thread may have completed it since it was last looked at.
  const bool has_got = receive.is_done() && receive.bytes <= receive.room;
  return !has_got || put_back(receive, nullptr);
}

// All other parcels that could match the same receives came later: an earlier one would have been
// taken instead of this message.
bool ShmMail::put_back(const Receiving& receive, Inbox* coming) noexcept {
  if (coming != nullptr) coming->receive = nullptr;
  if (channel_->is_aborted()) return true;  // nobody will ask for it
  const std::size_t come = coming != nullptr ? coming->come : receive.bytes;
  try {
    Parcel parcel{receive.source, receive.tag, receive.bytes, coming == nullptr, nullptr};
    parcel.data = std::make_unique_for_overwrite<std::byte[]>(receive.bytes);
    if (come != 0) copy_bytes(parcel.data.get(), receive.data, come, false);
    in_[static_cast<std::size_t>(receive.source)].aside += parcel.cost();
    parcels_.push_front(std::move(parcel));
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (coming != nullptr) coming->parcel = &parcels_.front();
  // Who waits for the same does not look at parcels any more.
  if (Receiving* const next = take_match(receive.source, receive.tag)) take_parcel(*next, nullptr);
  return true;
}

}  // namespace hymn
