#include "preload/recorded.hpp"

#include <algorithm>
#include <string_view>

#include "preload/reductions.hpp"
#include "recorder/stamp.hpp"

namespace hymn::preload {
namespace {

struct Named {
  std::string_view name;
  OpType type;
};
constexpr Named collectives[] = {
    {"MPI_Allreduce", OpType::all_reduce},
    {"MPI_Reduce", OpType::reduce},
    {"MPI_Bcast", OpType::broadcast},
    {"MPI_Barrier", OpType::barrier},
    {"MPI_Gather", OpType::gather},
    {"MPI_Gatherv", OpType::gather},
    {"MPI_Scatter", OpType::scatter},
    {"MPI_Scatterv", OpType::scatter},
    {"MPI_Allgather", OpType::all_gather},
    {"MPI_Allgatherv", OpType::all_gather},
    {"MPI_Alltoall", OpType::all_to_all},
    {"MPI_Alltoallv", OpType::all_to_all},
    {"MPI_Alltoallw", OpType::all_to_all},
    {"MPI_Reduce_scatter", OpType::reduce_scatter},
    {"MPI_Reduce_scatter_block", OpType::reduce_scatter},
    {"MPI_Scan", OpType::scan},
    {"MPI_Exscan", OpType::exscan},
    {"MPI_Iallreduce", OpType::all_reduce},
    {"MPI_Ireduce", OpType::reduce},
    {"MPI_Ibcast", OpType::broadcast},
    {"MPI_Ibarrier", OpType::barrier},
    {"MPI_Igather", OpType::gather},
    {"MPI_Igatherv", OpType::gather},
    {"MPI_Iscatter", OpType::scatter},
    {"MPI_Iscatterv", OpType::scatter},
    {"MPI_Iallgather", OpType::all_gather},
    {"MPI_Iallgatherv", OpType::all_gather},
    {"MPI_Ialltoall", OpType::all_to_all},
    {"MPI_Ialltoallv", OpType::all_to_all},
    {"MPI_Ireduce_scatter", OpType::reduce_scatter},
    {"MPI_Ireduce_scatter_block", OpType::reduce_scatter},
    {"MPI_Iscan", OpType::scan},
    {"MPI_Iexscan", OpType::exscan},
};

constexpr OpType find_type(std::string_view name) {
  for (const Named& one : collectives)
    if (one.name == name) return one.type;
  return OpType::barrier;
}

/// What hymn calls each of them.
constexpr auto types_of_calls = [] {
  std::array<OpType, call_count> types{};
  for (std::size_t i = 0; i < call_count; ++i) types[i] = find_type(call_names[i]);
  return types;
}();

CallSide side(std::size_t bytes, SideForm form, bool is_uneven, int ranks) {
  CallSide made;
  if (form == SideForm::none) return made;
  made.buffers = 1;
  made.dtype = DataType::uint8;
  made.count = form == SideForm::blocks ? bytes * static_cast<std::size_t>(ranks) : bytes;
  made.layout = form == SideForm::whole ? Layout::whole
                : is_uneven             ? Layout::counted
                                        : Layout::equal;
  return made;
}

CallState state_of(int code) {
  return code == MPI_SUCCESS ? CallState::completed : CallState::failed;
}

}  // namespace

bool Recorded::find(MPI_Comm comm) {
  if (watch_ == nullptr) return false;
  comm_ = session_.communicators().find(comm);
  if (comm_ != nullptr && comm_->watched() == nullptr) comm_ = nullptr;
  return comm_ != nullptr;
}

Recorded& Recorded::of(MPI_Comm comm) {
  if (find(comm)) is_uneven_ = true;
  return *this;
}

Recorded& Recorded::of(MPI_Comm comm, int count, MPI_Datatype type) {
  if (find(comm) && count > 0)
    bytes_ = static_cast<std::size_t>(count) * session_.types().find(type).size;
  return *this;
}

Recorded& Recorded::of_blocks(MPI_Comm comm, int root, int count, MPI_Datatype type, int root_count,
                              MPI_Datatype root_type) {
  if (!find(comm)) return *this;
  const bool is_root = comm_->rank() == root;
  return of(comm, is_root ? root_count : count, is_root ? root_type : type).at(root);
}

Recorded& Recorded::by(MPI_Op op) {
  if (comm_ != nullptr) kind_ = kind_of_op(op);
  return *this;
}

Recorded& Recorded::at(int root) {
  root_ = root;
  return *this;
}

void Recorded::add_message(OpType type, MPI_Comm comm, int peer, int tag, int count,
                           MPI_Datatype type_of) {
  if (peer == MPI_PROC_NULL || !find(comm)) return;
  Message& message = messages_[message_count_];
  message.comm = comm_;
  comm_ = nullptr;
  if (peer != MPI_ANY_SOURCE && (peer < 0 || peer >= message.comm->size())) return;
  message.type = type;
  message.peer = peer == MPI_ANY_SOURCE ? -1 : message.comm->world_rank(peer);
  message.tag = tag;
  if (count > 0)
    message.bytes = static_cast<std::size_t>(count) * session_.types().find(type_of).size;
  ++message_count_;
}

Recorded& Recorded::to(MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type) {
  add_message(OpType::send, comm, peer, tag, count, type);
  return *this;
}

Recorded& Recorded::from(MPI_Comm comm, int peer, int tag, int count, MPI_Datatype type) {
  add_message(OpType::recv, comm, peer, tag, count, type);
  return *this;
}

Recorded& Recorded::probing(MPI_Comm comm, int peer, int tag) {
  add_message(OpType::probe, comm, peer, tag, 0, MPI_BYTE);
  return *this;
}

Recorded& Recorded::until(const MPI_Request* request) {
  request_ = request;
  use_ = Use::starts;
  return *this;
}

Recorded& Recorded::persistent(const MPI_Request* request) {
  request_ = request;
  use_ = Use::says;
  return *this;
}

Recorded& Recorded::starting(int count, const MPI_Request* requests) {
  started_ = requests;
  started_count_ = count;
  return *this;
}

Recorded& Recorded::freeing(const MPI_Request* request) {
  if (watch_ != nullptr && request != nullptr) freed_ = *request;
  return looking(1, request);
}

Recorded& Recorded::looking(int count, const MPI_Request* requests) {
  if (watch_ == nullptr || requests == nullptr) return *this;
  requests_ = requests;
  const MPI_Request* const asked = asked_ != nullptr ? asked_ : requests;
  for (int i = 0; i < count; ++i) {
    if (asked[i] == MPI_REQUEST_NULL) continue;
    if (const auto open = watch_->requests().find(asked[i])) watched_.push_back({i, *open});
  }
  return *this;
}

Recorded& Recorded::all_if(const int* flag) {
  flag_ = flag;
  return *this;
}

Recorded& Recorded::one_of(const int* index) {
  index_ = index;
  return *this;
}

Recorded& Recorded::some_of(const int* count, const int* indices) {
  count_ = count;
  indices_ = indices;
  return *this;
}

Recorded& Recorded::waiting(int count, const MPI_Request* requests) {
  looking(count, requests);
  for (const Watched& one : watched_) watch_->record().set_waited_for(one.open.record);
  return *this;
}

Recorded& Recorded::blocking() {
  is_outer_ = true;
  return *this;
}

Recorded& Recorded::making(const MPI_Comm* comm) {
  made_ = comm;
  return blocking();
}

Recorded& Recorded::naming(MPI_Comm comm) {
  named_ = comm;
  return *this;
}

void Recorded::start() {
  if (watch_ == nullptr) return;
  if (comm_ != nullptr) start_collective();
  for (std::size_t i = 0; i < message_count_ && use_ != Use::says; ++i) {
    Message& one = messages_[i];
    one.record = start_message(*one.comm->watched(), {{}, one.type, one.peer, one.tag, one.bytes});
  }
  if (is_outer_) watch_->record().set_outer_call(call_names[index_of(call_)].data());
}

CallRecord Recorded::record_of_collective() const {
  CallRecord made;
  made.type = types_of_calls[index_of(call_)];
  const OpTraits& traits = traits_of(made.type);
  made.kind = kind_;
  if (traits.root != RootRole::none && root_ >= 0 && root_ < comm_->size())
    made.peer = comm_->world_rank(root_);
  const int ranks = comm_->size();
  made.input = side(bytes_, traits.input, is_uneven_, ranks);
  made.output = side(bytes_, traits.output, is_uneven_, ranks);
  return made;
}

void Recorded::start_collective() {
  WatchedGroup& group = *comm_->watched();
  CallRecord made = record_of_collective();
  sequence_ = group.line->collectives.load(std::memory_order_relaxed) + 1;
  if (request_ == nullptr) group.blocking.store(sequence_, std::memory_order_relaxed);
  group.line->collectives.store(sequence_, std::memory_order_release);
  made.group_uid = group.uid;
  made.sequence = sequence_;
  made.op_id = sequence_ + group.line->p2ps.load(std::memory_order_relaxed);
  made.waited_for = request_ == nullptr;
  made.site = reinterpret_cast<std::uintptr_t>(site_);
  made.created = processor_stamp();
  record_ = watch_->record().begin(made);
}

std::uint64_t Recorded::start_message(const WatchedGroup& group, const PersistentMessage& message) {
  CallRecord made;
  made.type = message.type;
  made.group_uid = group.uid;
  made.sequence = group.line->p2ps.fetch_add(1, std::memory_order_acq_rel) + 1;
  made.op_id = made.sequence + group.line->collectives.load(std::memory_order_relaxed);
  made.peer = message.peer;
  const CallSide whole = side(message.bytes, SideForm::whole, false, 1);
  (message.type == OpType::send ? made.input : made.output) = whole;
  tag_place(made) =
      message.tag == MPI_ANY_TAG ? every_tag : static_cast<std::uint32_t>(message.tag);
  made.waited_for = use_ == Use::blocks && started_ == nullptr;
  made.site = reinterpret_cast<std::uintptr_t>(site_);
  made.created = processor_stamp();
  return watch_->record().begin(made);
}

// MPI has just started them, and nobody waits for them yet.
void Recorded::start_persistent() {
  for (int i = 0; i < started_count_; ++i) {
    const auto message = watch_->persistent().find(started_[i]);
    if (!message) continue;
    const std::uint64_t record = start_message(*message->group, *message);
    const Requests::Added added = watch_->requests().add({started_[i], record, nullptr, true});
    if (added.ended) end_open(*added.ended, CallState::completed);
    if (!added.is_followed) watch_->record().end(record, CallState::completed);
  }
}

void Recorded::end(int code) {
  if (watch_ == nullptr) return;
  if (comm_ != nullptr) end_collective(code);
  end_messages(code);
  if (!watched_.empty()) end_requests(state_of(code));
  if (is_outer_) watch_->record().set_outer_call(nullptr);
  if (code != MPI_SUCCESS) return;
  if (started_ != nullptr) start_persistent();
  if (freed_ != MPI_REQUEST_NULL) watch_->persistent().remove(freed_);
  if (made_ != nullptr) session_.communicators().find(*made_);
  if (named_ != MPI_COMM_NULL) name_group();
}

void Recorded::name_group() {
  const Communicator* const comm = session_.communicators().find(named_);
  if (comm != nullptr && comm->watched() != nullptr)
    watch_->rename(comm->handle(), *comm->watched());
}

// A call that has failed leaves nothing behind that could be taken for a request.
bool Recorded::leaves_open(int code, std::uint64_t record,
                           const std::shared_ptr<WatchedGroup>& group) {
  if (code != MPI_SUCCESS || request_ == nullptr || *request_ == MPI_REQUEST_NULL) return false;
  const Requests::Added added = watch_->requests().add({*request_, record, group});
  if (added.ended) end_open(*added.ended, CallState::completed);
  return added.is_followed;
}

void Recorded::end_open(const Requests::Open& open, CallState state) {
  watch_->record().end(open.record, state);
  if (open.group != nullptr) open.group->end_one();
}

void Recorded::end_messages(int code) {
  for (std::size_t i = 0; i < message_count_; ++i) {
    const Message& one = messages_[i];
    if (use_ == Use::says) {
      if (code == MPI_SUCCESS)
        watch_->persistent().add(*request_,
                                 {one.comm->watched(), one.type, one.peer, one.tag, one.bytes});
    } else if (!leaves_open(code, one.record, nullptr)) {
      watch_->record().end(one.record, state_of(code));
    }
  }
}

void Recorded::end_collective(int code) {
  const std::shared_ptr<WatchedGroup>& group = comm_->watched();
  if (request_ != nullptr) {
    group->in_flight.fetch_add(1, std::memory_order_acq_rel);
    if (!leaves_open(code, record_, group)) end_open({{}, record_, group}, state_of(code));
    return;
  }
  watch_->record().end(record_, state_of(code));
  group->blocking.store(0, std::memory_order_release);
  if (group->in_flight.load(std::memory_order_acquire) == 0)
    group->line->completed.store(sequence_, std::memory_order_release);
}

bool Recorded::is_named(int index) const {
  if (index_ != nullptr) return *index_ == index;
  if (count_ == nullptr) return true;
  if (*count_ == MPI_UNDEFINED) return false;
  return std::find(indices_, indices_ + *count_, index) != indices_ + *count_;
}

// MPI leaves MPI_REQUEST_NULL where a request has ended, but for one that may be started again.
bool Recorded::has_ended(const Watched& one, CallState state) const {
  if (requests_[one.index] == MPI_REQUEST_NULL) return true;
  return one.open.is_persistent && state == CallState::completed && is_named(one.index);
}

void Recorded::end_requests(CallState state) {
  if (state == CallState::completed && flag_ != nullptr && *flag_ == 0) return;
  for (const Watched& one : watched_) {
    if (!has_ended(one, state)) continue;
    if (watch_->requests().remove(one.open.request, one.open.record)) end_open(one.open, state);
  }
}

}  // namespace hymn::preload
