#include "collectives/mpi/mpi_port.hpp"

#include "collectives/mpi/mpi_requests.hpp"
#include "collectives/mpi/mpi_types.hpp"
#include "hymn/process_group.hpp"

namespace hymn {
namespace {

class MpiTransfers final : public Transfers {
 public:
  explicit MpiTransfers(std::shared_ptr<MpiChannel> channel) : channel_(std::move(channel)) {}

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    MpiGate::Entry entry(*channel_->gate);
    const LargeType large(mpi_type(view), view.count, channel_->chunk_limit);
    check_mpi(PMPI_Isend(view.data, large.count(), large.type(), peer, mpi_tag(tag),
                         channel_->communicator, requests_.add()),
              "MPI_Isend");
  }

  void recv(int peer, MessageTag tag, const BufferView& view) override {
    MpiGate::Entry entry(*channel_->gate);
    const LargeType large(mpi_type(view), view.count, channel_->chunk_limit);
    const int source = peer == any_source ? MPI_ANY_SOURCE : peer;
    MPI_Request* request = tag.user ? &received_ : requests_.add();
    check_mpi(PMPI_Irecv(view.data, large.count(), large.type(), source, mpi_tag(tag),
                         channel_->communicator, request),
              "MPI_Irecv");
    if (tag.user) element_type_ = mpi_type(view);
  }

  bool test() override {
    MpiGate::Entry entry(*channel_->gate);
    return test_received() && requests_.test();
  }

  RecvStatus status() const override { return status_; }

  std::unique_ptr<Residue> abandon() noexcept override {
    cancel_received();
    if (requests_.empty()) return nullptr;
    return keep_requests(std::move(requests_), 0, channel_->gate);
  }

 private:
  // The upper part of MPI's tags is for collectives. It is used again after some thousands of
  // messages, which is safe: messages between two ranks with one tag stay in order, and all ranks
  // start their collectives in the same order.
  int mpi_tag(MessageTag tag) const {
    if (tag.user) return static_cast<int>(tag.value);
    constexpr int first = ProcessGroup::max_tag + 1;
    return first +
           static_cast<int>(tag.value % static_cast<std::uint64_t>(channel_->tag_bound - first));
  }

  /// The user's receive tells its status.
  bool test_received() {
    if (received_ == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_Status status;
    check_mpi(PMPI_Test(&received_, &done, &status), "MPI_Test");
    if (done == 0) return false;
    MPI_Count bytes = 0;
    MPI_Count element_bytes = 0;
    check_mpi(PMPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    check_mpi(PMPI_Type_size_x(element_type_, &element_bytes), "MPI_Type_size_x");
    status_.source = status.MPI_SOURCE;
    status_.tag = status.MPI_TAG;
    status_.count = static_cast<std::size_t>(element_bytes > 0 ? bytes / element_bytes : 0);
    return true;
  }

  void cancel_received() noexcept {
    if (received_ == MPI_REQUEST_NULL || !channel_->gate->may_enter()) return;
    try {
      MpiGate::Entry entry(*channel_->gate);
      PMPI_Cancel(&received_);
      // A receive, unlike a collective, can be cancelled: this returns at once.
      PMPI_Wait(&received_, MPI_STATUS_IGNORE);
    } catch (...) {
      received_ = MPI_REQUEST_NULL;  // MPI has been finalized meanwhile
    }
  }

  std::shared_ptr<MpiChannel> channel_;
  MpiRequests requests_;
  MPI_Request received_ = MPI_REQUEST_NULL;
  MPI_Datatype element_type_ = MPI_BYTE;
  RecvStatus status_;
};

class MpiPort final : public MessagePort {
 public:
  explicit MpiPort(std::shared_ptr<MpiChannel> channel) : channel_(std::move(channel)) {}
  std::string_view path() const override { return "mpi_p2p"; }
  Verdict can_carry(const Request& request) const override { return knows_types(request); }
  std::unique_ptr<Transfers> open() override { return std::make_unique<MpiTransfers>(channel_); }

 private:
  std::shared_ptr<MpiChannel> channel_;
};

}  // namespace

std::shared_ptr<MessagePort> make_mpi_port(std::shared_ptr<MpiChannel> channel) {
  return std::make_shared<MpiPort>(std::move(channel));
}

}  // namespace hymn
