#include "runtime/group/send_recv.hpp"

#include <memory>

#include "p2p/copy_bytes.hpp"
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

}  // namespace

Work SendRecv::start(const P2POp& send, const P2POp& recv) const {
  return Work(WorkStarter(group_, options_, site_).start_sendrecv(send, recv));
}

RecvStatus SendRecv::run(const P2POp& send, const P2POp& recv) const {
  Work work = start(send, recv);
  return options_.stream != nullptr ? RecvStatus{} : received_by(work);
}

RecvStatus SendRecv::replace(const P2POp& send, const P2POp& recv) const {
  group_.works().scopes().require_none("sendrecv_replace", group_.members());
  if (group_.members().is_member())  // others are only warned
    WorkStarter(group_, options_, site_).require_on_host(send.request);
  ConstBufferView view = send.request.inputs.flat();
  auto copy = std::make_unique_for_overwrite<std::byte[]>(view.bytes());
  if (view.bytes() != 0) copy_bytes(copy.get(), view.data, view.bytes(), false);
  view.data = copy.get();
  P2POp copied = send;
  copied.request.inputs = InputBlocks::whole(view);
  Work work = start(copied, recv);
  try {
    return received_by(work);
  } catch (...) {
    // MPI may go on reading what it cannot cancel, and does not tell when it has ceased to.
    static_cast<void>(copy.release());
    throw;
  }
}

}  // namespace hymn::detail
