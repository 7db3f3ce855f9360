// An agent's engine and links for the fuzzer, in place of rpc/engine.cpp, rpc/engine_threads.cpp
// and rpc/link.cpp: without threads and sockets. Jobs and news are done at once, and what is sent
// is read again, for it must be what another worker takes.
#include <vector>

#include "rpc/agent_state.hpp"
#include "rpc/engine.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/rpc_engine.hpp"

namespace hymn::fuzz {

RpcEvents& rpc_events() {
  static RpcEvents events;
  return events;
}

}  // namespace hymn::fuzz

namespace hymn::rpc {

/// All that is used of what rpc/agent.cpp has.
const WorkerInfo& Agent::self() const { return state_->worker(state_->rank()); }

}  // namespace hymn::rpc

namespace hymn::rpc::detail {

Engine::Engine(int limit, Events events) : limit_(limit), events_(std::move(events)) {
  fuzz::rpc_events() = {events_.message, events_.lost};
}
Engine::~Engine() = default;

void Engine::add_link(int rank, Descriptor socket, int pid, const LinkLimits& limits,
                      int /*stream*/) {
  Neighbour& neighbour = neighbours_[rank];
  neighbour.pid = pid;
  neighbour.link = std::make_unique<Link>(std::move(socket), -1, 0, limits, nullptr);
}
void Engine::start() {}
Link* Engine::link(int rank) {
  const auto found = neighbours_.find(rank);
  return found == neighbours_.end() ? nullptr : found->second.link.get();
}

void Engine::submit(Job job) {
  if (!stopping_) job();
}
void Engine::report(Job news) { news(); }
void Engine::report_all() {}
void Engine::note_deadline(TimePoint /*when*/) {}
std::size_t Engine::threads() const { return 0; }
void Engine::stop() { stopping_ = true; }
void Engine::join() {}

Engine* Engine::of_this_thread() noexcept { return nullptr; }
void Engine::await(CallWait& /*call*/, Deadline /*deadline*/) {
  fuzz::require(false, "nobody waits where there is nobody to answer");
}
void Engine::wake_other_leader() {}
void Engine::begin_wait() {}
void Engine::end_wait() {}
void Engine::hand_over_other(const Engine* /*but*/) {}

Link::Link(Descriptor socket, int poll, std::uint64_t tag, const LinkLimits& limits,
           ByteStream* stream)
    : socket_(std::move(socket)),
      poll_(poll),
      tag_(tag),
      stream_(stream),
      reader_(limits.most_bytes),
      most_queued_(limits.most_queued) {}

bool Link::send(Message message) {
  if (!is_open()) return false;
  OutMessage out(std::move(message));
  std::vector<Message> arrived;
  while (out.left() > 0) {
    iovec piece{};
    fuzz::require(out.pieces({&piece, 1}) == 1, "what is left has a piece");
    reader_.feed({static_cast<const std::byte*>(piece.iov_base), piece.iov_len}, arrived);
    out.advance(piece.iov_len);
  }
  fuzz::require(arrived.size() == 1, "what is sent is a message");
  return true;
}
void Link::flush() {}
void Link::close() { is_open_ = false; }
void Link::drain(TimePoint /*deadline*/) {}

}  // namespace hymn::rpc::detail
