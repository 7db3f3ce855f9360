#include "runtime/group/send_recv.hpp"

#include <memory>

#include "p2p/copy_bytes.hpp"
#include "runtime/group/pair_call.hpp"
#include "runtime/group/work_starter.hpp"

namespace hymn::detail {
namespace {

// In a scope it is only begun at the end of that.
RecvStatus received_by(Work& work) {
  if (!work.valid()) return {};
  work.wait();
  const std::vector<RecvStatus> statuses = work.statuses();
  return statuses.empty() ? RecvStatus{} : statuses.front();
}

// Shared, as MPI may go on reading what it cannot cancel when the call has failed.
std::shared_ptr<std::byte[]> copy_of(const ConstBufferView& view) {
  auto copy = std::make_shared_for_overwrite<std::byte[]>(view.bytes());
  if (view.bytes() != 0) copy_bytes(copy.get(), view.data, view.bytes(), false);
  return copy;
}

}  // namespace

Work SendRecv::start(const P2POp& send, const P2POp& recv) const {
  return Work(WorkStarter(group_, options_, site_).start_sendrecv(send, recv));
}

RecvStatus SendRecv::run(const P2POp& send, const P2POp& recv) const {
  if (const auto received =
          PairCall(group_, options_, site_of(options_, site_)).try_run(recv.request, send.request))
    return *received;
  Work work = start(send, recv);
  return options_.stream != nullptr ? RecvStatus{} : received_by(work);
}

void SendRecv::require_no_scope() const {
  group_.works().scopes().require_none("sendrecv_replace", group_.members());
}

RecvStatus SendRecv::replace(const P2POp& send, const P2POp& recv) const {
  require_no_scope();
  if (!group_.members().is_member()) return run(send, recv);  // which warns; there may be no buffer
  WorkStarter starter(group_, options_, site_);
  starter.require_copyable(send.request);
  ConstBufferView view = send.request.inputs.flat();
  const auto copy = copy_of(view);
  view.data = copy.get();
  P2POp copied = send;
  copied.request.inputs = InputBlocks::whole(view);
  Work work(starter.start_sendrecv(copied, recv, {.memory = copy}));
  return received_by(work);
}

}  // namespace hymn::detail
