#include "p2p/mpi/mpi_port.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "hymn/process_group.hpp"
#include "p2p/mpi/mpi_requests.hpp"
#include "p2p/mpi/mpi_types.hpp"

namespace hymn {
namespace {

class MpiTransfers final : public Transfers {
 public:
  explicit MpiTransfers(std::shared_ptr<MpiChannel> channel) : channel_(std::move(channel)) {}

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    MpiGate::Entry entry(*channel_->gate);
    const LargeType large(mpi_type(view), view.count, channel_->chunk_limit);
    check(PMPI_Isend(view.data, large.count(), large.type(), peer, mpi_tag(tag),
                     channel_->communicator, requests_.add()),
          "MPI_Isend");
    channel_->traffic.note_sent(peer);
  }

  void recv(int peer, MessageTag tag, const BufferView& view) override {
    MpiGate::Entry entry(*channel_->gate);
    const LargeType large(mpi_type(view), view.count, channel_->chunk_limit);
    const int source = peer == any_source ? MPI_ANY_SOURCE : peer;
    const bool is_exact = view.dtype != DataType::opaque;
    if (!tag.user) wanted_.push_back({requests_.size(), peer, is_exact ? view.bytes() : 0});
    MPI_Request* request = tag.user ? &received_ : requests_.add();
    check(PMPI_Irecv(view.data, large.count(), large.type(), source, mpi_tag(tag),
                     channel_->communicator, request),
          "MPI_Irecv");
    ++receives_;
    if (tag.user) element_type_ = mpi_type(view);
  }

  bool test() override {
    MpiGate::Entry entry(*channel_->gate);
    try {
      if (!test_received() || !test_requests()) return false;
    } catch (...) {
      channel_->traffic.spoil();
      throw;
    }
    if (receives_ != 0) channel_->traffic.note_received(std::exchange(receives_, 0));
    return true;
  }

  RecvStatus status() const override { return status_; }

  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    const bool taken_back = take_back_received();
    if (taken_back && take_back_wanted()) return nullptr;
    return keep_requests(std::move(requests_), 0, channel_->gate);
  }

 private:
  void check(int code, const char* call) {
    if (code != MPI_SUCCESS) [[unlikely]]
      channel_->traffic.spoil();
    check_mpi(code, call);
  }

  // The upper part of MPI's tags is for collectives.
  int mpi_tag(MessageTag tag) const {
    if (tag.user) return static_cast<int>(tag.value);
    constexpr int first = ProcessGroup::max_tag + 1;
    const auto room = static_cast<unsigned>(channel_->tag_bound - first);
    return first + static_cast<int>(tag.packed(static_cast<unsigned>(std::bit_width(room)) - 1));
  }

  /// The user's receive tells its status.
  bool test_received() {
    if (received_ == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_Status status;
    check_mpi(test_mpi(&received_, &done, &status), "MPI_Test");
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

  /// Whoever takes part in a collective knows how much comes.
  bool test_requests() {
    const bool all = requests_.test([this](std::size_t index, const MPI_Status& status) {
      const auto wanted = std::ranges::find(wanted_, index, &Wanted::index);
      if (wanted == wanted_.end()) return;
      MPI_Count bytes = 0;
      check_mpi(PMPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
      if (static_cast<std::uint64_t>(bytes) < wanted->bytes)
        throw short_message("group rank " + std::to_string(wanted->peer),
                            static_cast<std::uint64_t>(bytes), wanted->bytes);
    });
    if (all) wanted_.clear();
    return all;
  }

  /// A receive, unlike a collective, can be cancelled. False: its message has come, or has begun
  /// to, and cannot be given to another receive. Then what is still to come is waited for
  /// elsewhere.
  bool take_back_received() noexcept {
    if (received_ == MPI_REQUEST_NULL) return true;
    const bool cancelled = channel_->gate->may_enter() && cancel_received();
    if (received_ != MPI_REQUEST_NULL)
      *requests_.add() = std::exchange(received_, MPI_REQUEST_NULL);
    return cancelled;
  }

  /// The receives of a collective likewise. False: something is left that MPI does not let go of.
  bool take_back_wanted() noexcept {
    if (wanted_.empty() || !channel_->gate->may_enter()) return requests_.empty();
    try {
      MpiGate::Entry entry(*channel_->gate);
      for (const Wanted& wanted : wanted_) requests_.cancel(wanted.index);
      for (int look = 0; look < spin_count; ++look)
        if (requests_.test()) return true;
    } catch (...) {
      // MPI has been finalized meanwhile.
    }
    return false;
  }

  bool cancel_received() noexcept {
    try {
      MpiGate::Entry entry(*channel_->gate);
      PMPI_Cancel(&received_);
      int done = 0;
      MPI_Status status;
      for (int look = 0; done == 0 && look < spin_count; ++look)
        if (test_mpi(&received_, &done, &status) != MPI_SUCCESS) return false;
      int cancelled = 0;
      if (done != 0) PMPI_Test_cancelled(&status, &cancelled);
      return cancelled != 0;
    } catch (...) {
      return false;  // MPI has been finalized meanwhile
    }
  }

  // One that was cancelled completes whatever others do, though perhaps not at the first look.
  static constexpr int spin_count = 100;

  struct Wanted {
    std::size_t index;  ///< of the request
    int peer;
    std::uint64_t bytes;  ///< 0: any number
  };

  std::shared_ptr<MpiChannel> channel_;
  MpiRequests requests_;
  std::vector<Wanted> wanted_;  ///< by collectives
  MPI_Request received_ = MPI_REQUEST_NULL;
  MPI_Datatype element_type_ = MPI_BYTE;
  std::uint64_t receives_ = 0;  // that have not been counted
  RecvStatus status_;
};

class MpiPort final : public MessagePort {
 public:
  explicit MpiPort(std::shared_ptr<MpiChannel> channel) : channel_(std::move(channel)) {}
  Verdict can_carry(const Request& request) const override { return knows_types(request); }
  std::unique_ptr<Transfers> open() override { return std::make_unique<MpiTransfers>(channel_); }
  std::optional<RecvStatus> probe(int peer, MessageTag tag) override {
    MpiGate::Entry entry(*channel_->gate);
    int found = 0;
    MPI_Status status;
    check_mpi(PMPI_Iprobe(peer == any_source ? MPI_ANY_SOURCE : peer, static_cast<int>(tag.value),
                          channel_->communicator, &found, &status),
              "MPI_Iprobe");
    if (found == 0) return std::nullopt;
    MPI_Count bytes = 0;
    check_mpi(PMPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    return RecvStatus{.source = status.MPI_SOURCE,
                      .tag = status.MPI_TAG,
                      .count = static_cast<std::size_t>(bytes)};
  }

 private:
  std::shared_ptr<MpiChannel> channel_;
};

}  // namespace

std::shared_ptr<MessagePort> make_mpi_port(std::shared_ptr<MpiChannel> channel) {
  return std::make_shared<MpiPort>(std::move(channel));
}

}  // namespace hymn
