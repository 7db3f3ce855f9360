// NCCL of the toy GPUs. All communicators are of the non-blocking kind: what takes time is in
// progress until it has been asked for often enough, and until all ranks have come.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/unit/toy_state.hpp"

namespace hymn::test {
namespace {

using namespace nccl_api;
using nccl_api::Config;
using nccl_api::DataType;

constexpr int looks_until_connected = 2;

ToyComm* as_comm(Comm comm) { return static_cast<ToyComm*>(static_cast<void*>(comm)); }
Comm as_handle(ToyComm* comm) { return static_cast<Comm>(static_cast<void*>(comm)); }

thread_local std::vector<std::pair<ToyCall, Stream>> grouped;
thread_local int group_depth = 0;

bool is_settled(const ToyComm& comm) {
  return comm.busy == 0 && comm.team->is_full() && (!comm.waits_for || *comm.waits_for == 0);
}

/// Notes the call, and returns when it may; what it is to return.
Result enter(std::unique_lock<std::mutex>& lock, const std::string& name, const ToyComm* comm,
             int gpu) {
  const std::string which = comm != nullptr ? fmt::format(" on {}", comm->number) : "";
  toy->calls[gpu].push_back(name + which);
  ++toy->counts[name];
  ++toy->held_up;
  if (comm != nullptr) ++comm->calls_inside;
  toy->changed.notify_all();
  toy->changed.wait(lock, [&name] { return !toy->is_held(name); });
  --toy->held_up;
  if (comm != nullptr) --comm->calls_inside;
  toy->changed.notify_all();
  const auto failure = toy->failures.find(name);
  if (failure == toy->failures.end()) return success;
  const Result result = failure->second;
  toy->failures.erase(failure);
  return result;
}

/// What NCCL wants of every call on a communicator.
void require_ready(const ToyComm& comm, const std::string& name) {
  if (comm.is_gone) toy->violation(name + " on a communicator that is gone");
  if (comm.is_finalized) toy->violation(name + " on a communicator that has ended");
  if (!is_settled(comm)) toy->violation(name + " while the communicator is in progress");
}

/// As NCCL does, or what comes of it where it does not look.
void require_own_gpu(const ToyCall& call, Stream stream) {
  const int gpu = call.comm->gpu;
  for (const ToyStream& known : toy->streams)
    if (static_cast<const void*>(&known) == static_cast<const void*>(stream) && known.gpu != gpu)
      toy->violation(call.name + " on a stream of another GPU");
  for (const void* const pointer : {call.in, static_cast<const void*>(call.out)})
    if (const auto found = toy->memory.at(pointer);
        found && found->kind == MemoryKind::device && found->gpu != gpu)
      toy->violation(call.name + " in the memory of another GPU");
}

bool is_in_flight(const ToyComm& comm) {
  return std::any_of(toy->streams.begin(), toy->streams.end(), [&comm](const ToyStream& stream) {
    return std::any_of(stream.tasks.begin(), stream.tasks.end(), [&comm](const ToyTask& task) {
      return std::any_of(task.calls.begin(), task.calls.end(),
                         [&comm](const ToyCall& call) { return call.comm == &comm; });
    });
  });
}

ToyComm& make_comm(std::shared_ptr<ToyTeam> team, int rank) {
  ToyComm& comm = toy->comms.emplace_back();
  comm.number = static_cast<int>(toy->comms.size());
  comm.gpu = toy_current_gpu();
  comm.rank = rank;
  comm.team = std::move(team);
  return comm;
}

void join(ToyComm& comm, std::size_t size) {
  comm.team->size = size;
  comm.team->ranks.push_back(&comm);
  std::sort(comm.team->ranks.begin(), comm.team->ranks.end(),
            [](const ToyComm* a, const ToyComm* b) { return a->rank < b->rank; });
}

Result get_version(int* version) { return *version = toy->version, success; }
const char* error_text(Result result) {
  return result == remote_error ? "remote process exited or there was a network error"
                                : "unhandled system error";
}
const char* last_error(Comm) { return "the test wants it so"; }
Result get_unique_id(UniqueId* id) {
  std::lock_guard lock(toy->mutex);
  id->bytes.fill(static_cast<char>(++toy->ids));
  return success;
}

Result init_rank(Comm* made, int ranks, UniqueId id, int rank, Config* config) {
  std::unique_lock lock(toy->mutex);
  const int gpu = toy_current_gpu();
  const Result result = enter(lock, "init", nullptr, gpu);
  if (result != success) return result;
  toy->config = *config;
  auto& team = toy->teams[std::string(id.bytes.begin(), id.bytes.end())];
  if (team == nullptr) team = std::make_shared<ToyTeam>();
  for (const ToyComm* const other : team->ranks)
    if (other->gpu == gpu) toy->violation("two ranks of a communicator on one GPU");
  ToyComm& comm = make_comm(team, rank);
  join(comm, static_cast<std::size_t>(ranks));
  *made = as_handle(&comm);
  return in_progress;
}

/// All ranks of the parent have come: those of one color are a team.
void divide(ToyTeam& parent, std::size_t count) {
  std::map<int, std::vector<ToyComm*>> parts;
  for (const auto& [rank, choice] : parent.splits[count])
    if (choice.second != nullptr) parts[choice.first].push_back(choice.second);
  for (const auto& [color, members] : parts) {
    const auto team = std::make_shared<ToyTeam>();
    for (ToyComm* const member : members) {
      member->rank = static_cast<int>(team->ranks.size());
      member->team = team;
      join(*member, members.size());
    }
  }
}

Result split(Comm handle, int color, int key, Comm* made, Config* config) {
  std::unique_lock lock(toy->mutex);
  ToyComm& parent = *as_comm(handle);
  require_ready(parent, "split");
  if (is_in_flight(parent)) toy->violation("split while something is in flight");
  const Result result = enter(lock, "split", &parent, parent.gpu);
  if (result != success) return result;
  toy->config = *config;
  const std::size_t count = parent.splits++;
  auto& choices = parent.team->splits[count];
  ToyComm* part = nullptr;
  if (color != no_color) {
    part = &make_comm(std::make_shared<ToyTeam>(), key);
    part->gpu = parent.gpu;
    part->team->size = 1;
  }
  *made = part == nullptr ? nullptr : as_handle(part);
  choices[key] = {color, part};
  const auto still = static_cast<int>(parent.team->size - choices.size());
  std::shared_ptr<int> left;
  for (ToyComm* const member : parent.team->ranks)
    if (member->splits == count + 1 && member->waits_for && *member->waits_for > 0)
      left = member->waits_for;
  if (left == nullptr) left = std::make_shared<int>(0);
  *left = still;
  parent.waits_for = left;
  if (part != nullptr) part->waits_for = left;
  if (still == 0) divide(*parent.team, count);
  return in_progress;
}

bool is_busy(const ToyTask& task) {
  return std::any_of(task.calls.begin(), task.calls.end(),
                     [](const ToyCall& call) { return !call.done && call.comm->busy > 0; });
}

/// A call that was in progress is on its stream only now: what was enqueued there meanwhile comes
/// before it.
void enqueue_what_was_busy() {
  const auto first = std::stable_partition(toy->not_yet.begin(), toy->not_yet.end(),
                                           [](const auto& entry) { return is_busy(entry.second); });
  std::vector<std::pair<Stream, ToyTask>> now(std::make_move_iterator(first),
                                              std::make_move_iterator(toy->not_yet.end()));
  toy->not_yet.erase(first, toy->not_yet.end());
  for (auto& [stream, task] : now) toy_enqueue(stream, std::move(task));
}

Result get_async_error(Comm handle, Result* state) {
  std::lock_guard lock(toy->mutex);
  ToyComm& comm = *as_comm(handle);
  if (comm.is_gone) toy->violation("a communicator that is gone was asked for its state");
  toy->progress();
  *state = toy->comm_state != success ? toy->comm_state : success;
  if (*state == success && comm.is_finalized)
    *state = comm.team->finalized < static_cast<int>(comm.team->size) ? in_progress : success;
  if (*state == success && !is_settled(comm)) *state = in_progress;
  if (comm.busy > 0 && !toy->is_held("settling")) --comm.busy;
  if (comm.busy == 0 && comm.opening != nullptr)
    *std::exchange(comm.opening, nullptr) = static_cast<Window>(comm.known.rbegin()->first);
  enqueue_what_was_busy();
  return success;
}

Result finalize(Comm handle) {
  std::unique_lock lock(toy->mutex);
  ToyComm& comm = *as_comm(handle);
  require_ready(comm, "finalize");
  if (is_in_flight(comm)) toy->violation("finalize while something is in flight");
  if (!comm.known.empty()) toy->violation("finalize while buffers are registered");
  const Result result = enter(lock, "finalize", &comm, comm.gpu);
  comm.is_finalized = true;
  ++comm.team->finalized;
  return result == success ? in_progress : result;
}

void drop_calls(const ToyComm& comm) {
  const auto drop_from = [&comm](ToyTask& task) {
    for (ToyCall& call : task.calls)
      if (call.comm == &comm) call.done = true;
  };
  for (ToyStream& stream : toy->streams)
    for (ToyTask& task : stream.tasks) drop_from(task);
  for (auto& [stream, task] : toy->not_yet) drop_from(task);
  toy->progress();
}

Result end_comm(Comm handle, const char* name) {
  std::unique_lock lock(toy->mutex);
  ToyComm& comm = *as_comm(handle);
  if (comm.is_gone) toy->violation(std::string(name) + " of a communicator that is gone");
  const Result result = enter(lock, name, &comm, comm.gpu);
  if (comm.calls_inside > 0) toy->violation(std::string(name) + " under another thread's call");
  comm.is_gone = true;
  comm.known.clear();
  drop_calls(comm);
  return result;
}
Result destroy(Comm comm) { return end_comm(comm, "destroy"); }
Result abort(Comm comm) { return end_comm(comm, "abort"); }

// --- What goes onto streams

void enqueue_all() {
  std::map<Stream, ToyTask> tasks;
  for (auto& [call, stream] : grouped) tasks[stream].calls.push_back(std::move(call));
  grouped.clear();
  for (auto& [stream, task] : tasks) {
    if (is_busy(task))
      toy->not_yet.emplace_back(stream, std::move(task));
    else
      toy_enqueue(stream, std::move(task));
  }
}

Result add(ToyCall call, Comm handle, Stream stream) {
  std::unique_lock lock(toy->mutex);
  call.comm = as_comm(handle);
  ToyComm& comm = *call.comm;
  require_own_gpu(call, stream);
  if (group_depth == 0 || grouped.empty()) require_ready(comm, call.name);
  const Result result = enter(lock, call.name, &comm, comm.gpu);
  if (result != success) return result;
  if (call.kind == ToyCall::Kind::collective) call.sequence = comm.collectives++;
  grouped.emplace_back(std::move(call), stream);
  const bool is_first = !std::exchange(comm.was_used, true);
  if (is_first) comm.busy = looks_until_connected;
  if (group_depth == 0) enqueue_all();
  return is_first ? in_progress : success;
}

Result group_start() { return ++group_depth, success; }
Result group_end() {
  std::lock_guard lock(toy->mutex);
  if (--group_depth > 0) return success;
  if (grouped.size() > 1) ++toy->counts["group"];
  const bool is_busy = std::any_of(grouped.begin(), grouped.end(),
                                   [](const auto& entry) { return entry.first.comm->busy > 0; });
  enqueue_all();
  return is_busy ? in_progress : success;
}

// --- Buffers that it knows

Result allocate(void** made, std::size_t bytes) {
  std::unique_lock lock(toy->mutex);
  const Result result = enter(lock, "allocate", nullptr, toy_current_gpu());
  if (result != success) return result;
  ++toy->allocations;
  ++toy->open_of_nccl;
  *made = toy_allocate(toy_current_gpu(), bytes, MemoryKind::device);
  return success;
}
Result release(void* allocated) {
  toy_free(allocated);
  std::lock_guard lock(toy->mutex);
  for (const ToyComm& comm : toy->comms)
    for (const auto& [handle, buffer] : comm.known)
      if (buffer == allocated && !comm.is_gone)
        toy->violation("memory was freed that is registered");
  --toy->allocations;
  --toy->open_of_nccl;
  return success;
}

Result take_note(const char* name, Comm handle, void* buffer, void** made) {
  std::unique_lock lock(toy->mutex);
  ToyComm& comm = *as_comm(handle);
  require_ready(comm, name);
  const Result result = enter(lock, name, &comm, comm.gpu);
  if (result != success) return result;
  static std::uintptr_t handles = 0x1000;
  *made = reinterpret_cast<void*>(++handles);
  comm.known[*made] = buffer;
  return success;
}
Result drop_note(const char* name, Comm handle, void* known) {
  std::unique_lock lock(toy->mutex);
  ToyComm& comm = *as_comm(handle);
  require_ready(comm, name);
  if (comm.known.erase(known) == 0) toy->violation("what is not registered was deregistered");
  return enter(lock, name, &comm, comm.gpu);
}
Result register_buffer(Comm comm, void* buffer, std::size_t, void** made) {
  return take_note("register", comm, buffer, made);
}
Result deregister_buffer(Comm comm, void* known) { return drop_note("deregister", comm, known); }
// The handle comes when the communicator has settled.
Result open_window(Comm comm, void* buffer, std::size_t, Window* window, int flags) {
  void* made = nullptr;
  if (flags != symmetric_window) toy->violation("a window that is not symmetric");
  const Result result = take_note("open_window", comm, buffer, &made);
  if (result != success) return result;
  std::lock_guard lock(toy->mutex);
  as_comm(comm)->opening = window;
  as_comm(comm)->busy = looks_until_connected;
  return in_progress;
}
Result close_window(Comm comm, Window window) { return drop_note("close_window", comm, window); }

ToyCall collective(const char* name, const void* in, void* out, std::size_t count, DataType type,
                   Op op = sum, int root = -1) {
  ToyCall call;
  call.name = name;
  call.in = in;
  call.out = out;
  call.count = count;
  call.type = type;
  call.op = op;
  call.peer = root;
  return call;
}

Result all_reduce(const void* in, void* out, std::size_t count, DataType type, Op op, Comm comm,
                  Stream stream) {
  return add(collective("all_reduce", in, out, count, type, op), comm, stream);
}
Result broadcast(const void* in, void* out, std::size_t count, DataType type, int root, Comm comm,
                 Stream stream) {
  return add(collective("broadcast", in, out, count, type, sum, root), comm, stream);
}
Result reduce(const void* in, void* out, std::size_t count, DataType type, Op op, int root,
              Comm comm, Stream stream) {
  return add(collective("reduce", in, out, count, type, op, root), comm, stream);
}
Result all_gather(const void* in, void* out, std::size_t count, DataType type, Comm comm,
                  Stream stream) {
  return add(collective("all_gather", in, out, count, type), comm, stream);
}
Result reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Op op, Comm comm,
                      Stream stream) {
  return add(collective("reduce_scatter", in, out, count, type, op), comm, stream);
}
Result send(const void* in, std::size_t count, DataType type, int to, Comm comm, Stream stream) {
  ToyCall call = collective("send", in, nullptr, count, type, sum, to);
  call.kind = ToyCall::Kind::send;
  return add(std::move(call), comm, stream);
}
Result recv(void* out, std::size_t count, DataType type, int from, Comm comm, Stream stream) {
  ToyCall call = collective("recv", nullptr, out, count, type, sum, from);
  call.kind = ToyCall::Kind::recv;
  return add(std::move(call), comm, stream);
}

Result make_premul_sum(Op* op, void* factor, DataType type, int, Comm comm) {
  std::lock_guard lock(toy->mutex);
  auto& factors = as_comm(comm)->factors;
  *op = 100 + static_cast<int>(factors.size());
  factors[*op] = type == float32 ? static_cast<double>(*static_cast<const float*>(factor))
                                 : *static_cast<const double*>(factor);
  return success;
}
Result destroy_op(Op, Comm) { return success; }

}  // namespace

nccl_api::Functions toy_nccl() {
  nccl_api::Functions functions;
  functions.get_version.pointer = get_version;
  functions.error_text.pointer = error_text;
  functions.last_error.pointer = last_error;
  functions.get_unique_id.pointer = get_unique_id;
  functions.init_rank.pointer = init_rank;
  functions.split.pointer = split;
  functions.get_async_error.pointer = get_async_error;
  functions.finalize.pointer = finalize;
  functions.destroy.pointer = destroy;
  functions.abort.pointer = abort;
  functions.group_start.pointer = group_start;
  functions.group_end.pointer = group_end;
  functions.all_reduce.pointer = all_reduce;
  functions.broadcast.pointer = broadcast;
  functions.reduce.pointer = reduce;
  functions.all_gather.pointer = all_gather;
  functions.reduce_scatter.pointer = reduce_scatter;
  functions.send.pointer = send;
  functions.recv.pointer = recv;
  functions.make_premul_sum.pointer = make_premul_sum;
  functions.destroy_op.pointer = destroy_op;
  if (toy->version >= 21900) {
    functions.allocate.pointer = allocate;
    functions.release.pointer = release;
    functions.register_buffer.pointer = register_buffer;
    functions.deregister_buffer.pointer = deregister_buffer;
  }
  if (toy->version >= 22700) {
    functions.open_window.pointer = open_window;
    functions.close_window.pointer = close_window;
  }
  return functions;
}

}  // namespace hymn::test
