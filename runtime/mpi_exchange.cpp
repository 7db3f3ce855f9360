#include "runtime/mpi_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/mpi/mpi_types.hpp"

namespace hymn {
namespace {

// MPI's own tags are too few: the real one travels in front of the bytes.
constexpr int mpi_tag = 0;
constexpr std::size_t header_bytes = sizeof(std::uint64_t);
constexpr std::size_t chunk_limit = std::size_t{1} << 30;

}  // namespace

MpiExchange::MpiExchange(MPI_Comm communicator, std::shared_ptr<MpiGate> gate)
    : communicator_(communicator), gate_(std::move(gate)) {
  check_mpi(PMPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
}

void MpiExchange::send(int to, std::uint64_t tag, std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  if (to == rank_) {
    arrived_[tag].push_back({rank_, {bytes.begin(), bytes.end()}});
    return;
  }
  MpiGate::Entry entry(*gate_);
  finish_sent();
  Outgoing& message = outgoing_.emplace_back();
  message.bytes.resize(header_bytes + bytes.size());
  std::memcpy(message.bytes.data(), &tag, header_bytes);
  if (!bytes.empty()) std::memcpy(message.bytes.data() + header_bytes, bytes.data(), bytes.size());
  const LargeType large(MPI_BYTE, message.bytes.size(), chunk_limit);
  check_mpi(PMPI_Isend(message.bytes.data(), large.count(), large.type(), to, mpi_tag,
                       communicator_, &message.request),
            "MPI_Isend");
}

std::optional<ExchangeMessage> MpiExchange::try_receive(int from, std::uint64_t tag) {
  std::lock_guard lock(mutex_);
  {
    MpiGate::Entry entry(*gate_);
    finish_sent();
    collect_arrived();
  }
  const auto queue = arrived_.find(tag);
  if (queue == arrived_.end()) return std::nullopt;
  auto& messages = queue->second;
  const auto wanted = std::find_if(messages.begin(), messages.end(), [from](const auto& message) {
    return from == from_anyone || message.source == from;
  });
  if (wanted == messages.end()) return std::nullopt;
  ExchangeMessage message = std::move(*wanted);
  messages.erase(wanted);
  if (messages.empty()) arrived_.erase(queue);
  return message;
}

void MpiExchange::finish_sent() {
  outgoing_.remove_if([](Outgoing& message) {
    int done = 0;
    check_mpi(PMPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
}

void MpiExchange::collect_arrived() {
  while (true) {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(PMPI_Improbe(MPI_ANY_SOURCE, mpi_tag, communicator_, &found, &handle, &status),
              "MPI_Improbe");
    if (found == 0) return;
    MPI_Count bytes = 0;
    check_mpi(PMPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    std::vector<std::byte> whole(static_cast<std::size_t>(bytes));
    const LargeType large(MPI_BYTE, whole.size(), chunk_limit);
    check_mpi(PMPI_Mrecv(whole.data(), large.count(), large.type(), &handle, MPI_STATUS_IGNORE),
              "MPI_Mrecv");
    std::uint64_t tag = 0;
    std::memcpy(&tag, whole.data(), header_bytes);
    whole.erase(whole.begin(), whole.begin() + header_bytes);
    arrived_[tag].push_back({status.MPI_SOURCE, std::move(whole)});
  }
}

void MpiExchange::shut_down() {
  std::lock_guard lock(mutex_);
  if (communicator_ == MPI_COMM_NULL || !gate_->may_enter()) return;
  MpiGate::Entry entry(*gate_);
  finish_sent();
  if (outgoing_.empty()) PMPI_Comm_free(&communicator_);
}

}  // namespace hymn
