#include "preload/recorded_message.hpp"

namespace hymn::preload {

void RecordedMessage::add(OpType type, MPI_Comm comm, int peer, int tag, int count,
                          MPI_Datatype type_of) {
  if (peer == MPI_PROC_NULL) return;
  Communicator* const found = find(comm);
  if (found == nullptr) return;
  if (peer != MPI_ANY_SOURCE && (peer < 0 || peer >= found->size())) return;
  messages_[count_++] = {.comm = found,
                         .type = type,
                         .peer = peer == MPI_ANY_SOURCE ? -1 : found->world_rank(peer),
                         .tag = tag,
                         .bytes = bytes_of(count, type_of)};
}

RecordedMessage& RecordedMessage::to(MPI_Comm comm, int peer, int tag, int count,
                                     MPI_Datatype type) {
  add(OpType::send, comm, peer, tag, count, type);
  return *this;
}

RecordedMessage& RecordedMessage::from(MPI_Comm comm, int peer, int tag, int count,
                                       MPI_Datatype type) {
  add(OpType::recv, comm, peer, tag, count, type);
  return *this;
}

RecordedMessage& RecordedMessage::probing(MPI_Comm comm, int peer, int tag) {
  add(OpType::probe, comm, peer, tag, 0, MPI_BYTE);
  return *this;
}

RecordedMessage& RecordedMessage::until(const MPI_Request* request) {
  request_ = request;
  use_ = Use::starts;
  return *this;
}

RecordedMessage& RecordedMessage::persistent(const MPI_Request* request) {
  request_ = request;
  use_ = Use::says;
  return *this;
}

RecordedMessage& RecordedMessage::starting(int count, const MPI_Request* requests) {
  request_ = requests;
  request_count_ = count;
  use_ = Use::starts_again;
  return *this;
}

void RecordedMessage::start() {
  if (use_ == Use::says) return;
  for (std::size_t i = 0; i < count_; ++i) {
    Message& one = messages_[i];
    one.record = start_one(*one.comm->watched(), {{}, one.type, one.peer, one.tag, one.bytes});
  }
}

std::uint64_t RecordedMessage::start_one(const WatchedGroup& group,
                                         const PersistentMessage& message) {
  CallRecord made;
  made.type = message.type;
  made.sequence = next(group.line->p2ps);
  made.op_id = made.sequence + group.line->collectives.load(std::memory_order_relaxed);
  made.peer = message.peer;
  const CallSide whole = side_of_mpi(message.bytes, SideForm::whole, false, 1);
  if (message.type == OpType::send)
    made.input = whole;
  else
    made.output = whole;
  set_tag(made, message.tag == MPI_ANY_TAG ? every_tag : static_cast<std::uint32_t>(message.tag));
  return begin(made, group, use_ == Use::blocks);
}

void RecordedMessage::end(int code) {
  for (std::size_t i = 0; i < count_; ++i) end_one(messages_[i], code);
  if (use_ == Use::starts_again && code == MPI_SUCCESS && is_on()) start_again();
}

void RecordedMessage::end_one(const Message& message, int code) {
  if (use_ == Use::says) {
    if (code == MPI_SUCCESS)
      watch_->persistent().add(*request_, {message.comm->watched(), message.type, message.peer,
                                           message.tag, message.bytes});
  } else if (!leaves_open(request_, code, message.record, nullptr)) {
    watch_->record().end(message.record, state_of(code));
  }
}

// MPI has just started them, and nobody waits for them yet.
void RecordedMessage::start_again() {
  for (int i = 0; i < request_count_; ++i) {
    const auto message = watch_->persistent().find(request_[i]);
    if (!message) continue;
    const std::uint64_t record = start_one(*message->group, *message);
    const Requests::Added added = watch_->requests().add({request_[i], record, nullptr, true});
    if (added.ended) end_open(*added.ended, CallState::completed);
    if (!added.is_followed) watch_->record().end(record, CallState::completed);
  }
}

}  // namespace hymn::preload
