// The Exchange over a communicator of its own.
#pragma once

#include <list>
#include <mutex>

#include "base/message_queues.hpp"
#include "hymn/exchange.hpp"
#include "p2p/mpi/mpi_channel.hpp"

namespace hymn {

class MpiExchange final : public Exchange {
 public:
  /// Takes over `communicator`, which must be used by nobody else.
  MpiExchange(MPI_Comm communicator, std::shared_ptr<MpiGate> gate);
  ~MpiExchange() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    send_numbered(to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override;
  std::uint64_t send_numbered(int to, std::uint64_t tag, std::span<const std::byte> bytes) override;
  bool has_left(std::uint64_t number) override;
  std::string name() const override { return "MPI"; }
  bool is_open() const override { return gate_->is_open(); }

  MPI_Comm communicator() const { return communicator_; }
  /// Messages to others that MPI has, less those that came: over all ranks the sum is what nobody
  /// has received.
  std::uint64_t left_over();
  /// Frees the communicator if all messages of this rank have been taken over by MPI.
  void shut_down();

 private:
  struct Outgoing {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  /// A message that has been found and is on its way here.
  struct Incoming {
    int source = -1;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void finish_sent();
  void take_found();
  void finish_incoming();

  MPI_Comm communicator_;
  std::shared_ptr<MpiGate> gate_;
  int rank_ = 0;
  int size_ = 1;
  std::mutex mutex_;
  std::list<Outgoing> outgoing_;
  std::list<Incoming> incoming_;  // in the order in which they were found
  MessageQueues arrived_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace hymn
