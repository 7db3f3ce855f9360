#include "runtime/mechanisms/mpi_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "p2p/mpi/mpi_types.hpp"

namespace hymn {
namespace {

// MPI's own tags are too few: the real one travels in front of the bytes.
constexpr int mpi_tag = 0;
constexpr std::size_t header_bytes = sizeof(std::uint64_t);
constexpr std::size_t exchange_chunk = std::size_t{1} << 30;

}  // namespace

MpiExchange::MpiExchange(MPI_Comm communicator, std::shared_ptr<MpiGate> gate)
    : communicator_(communicator), gate_(std::move(gate)) {
  check_mpi(PMPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
}

// MPI may still write to what has not come whole.
MpiExchange::~MpiExchange() {
  if (incoming_.empty()) return;
  [[maybe_unused]] const auto* const kept = new std::list<Incoming>(std::move(incoming_));
}

std::uint64_t MpiExchange::send_numbered(int to, std::uint64_t tag,
                                         std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  if (to == rank_) {
    arrived_.add(tag, {rank_, {bytes.begin(), bytes.end()}});
    return 0;
  }
  MpiGate::Entry entry(*gate_);
  finish_sent();
  Outgoing& message = outgoing_.emplace_back();
  message.number = sent_ + 1;
  message.bytes.resize(header_bytes + bytes.size());
  std::memcpy(message.bytes.data(), &tag, header_bytes);
  if (!bytes.empty()) std::memcpy(message.bytes.data() + header_bytes, bytes.data(), bytes.size());
  const LargeType large(MPI_BYTE, message.bytes.size(), exchange_chunk);
  check_mpi(PMPI_Isend(message.bytes.data(), large.count(), large.type(), to, mpi_tag,
                       communicator_, &message.request),
            "MPI_Isend");
  return ++sent_;
}

std::optional<ExchangeMessage> MpiExchange::try_receive(int from, std::uint64_t tag) {
  std::lock_guard lock(mutex_);
  {
    MpiGate::Entry entry(*gate_);
    finish_sent();
    take_found();
    finish_incoming();
  }
  return arrived_.take(from, tag);
}

// Of long messages MPI sends the greater part when the receiver has come, and only in its calls.
bool MpiExchange::has_left(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  MpiGate::Entry entry(*gate_);
  finish_sent();
  return std::ranges::find(outgoing_, number, &Outgoing::number) == outgoing_.end();
}

void MpiExchange::finish_sent() {
  outgoing_.remove_if([](Outgoing& message) {
    int done = 0;
    check_mpi(PMPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
}

// Never MPI's blocking receive: a sender that is killed in the middle of its message sends no more.
void MpiExchange::take_found() {
  while (true) {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(PMPI_Improbe(MPI_ANY_SOURCE, mpi_tag, communicator_, &found, &handle, &status),
              "MPI_Improbe");
    if (found == 0) return;
    MPI_Count bytes = 0;
    check_mpi(PMPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
    Incoming& message = incoming_.emplace_back();
    message.source = status.MPI_SOURCE;
    message.bytes.resize(static_cast<std::size_t>(bytes));
    const LargeType large(MPI_BYTE, message.bytes.size(), exchange_chunk);
    check_mpi(
        PMPI_Imrecv(message.bytes.data(), large.count(), large.type(), &handle, &message.request),
        "MPI_Imrecv");
  }
}

void MpiExchange::finish_incoming() {
  // Messages of one rank stay in their order.
  std::set<int> late;
  for (auto message = incoming_.begin(); message != incoming_.end();) {
    int done = 0;
    if (!late.contains(message->source))
      check_mpi(PMPI_Test(&message->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) {
      late.insert(message->source);
      ++message;
      continue;
    }
    std::uint64_t tag = 0;
    std::memcpy(&tag, message->bytes.data(), header_bytes);
    message->bytes.erase(message->bytes.begin(), message->bytes.begin() + header_bytes);
    arrived_.add(tag, {message->source, std::move(message->bytes)});
    message = incoming_.erase(message);
    ++received_;
  }
}

std::uint64_t MpiExchange::left_over() {
  std::lock_guard lock(mutex_);
  return sent_ - received_;
}

void MpiExchange::shut_down() {
  std::lock_guard lock(mutex_);
  if (communicator_ == MPI_COMM_NULL || !gate_->may_enter()) return;
  MpiGate::Entry entry(*gate_);
  finish_sent();
  finish_incoming();
  if (outgoing_.empty() && incoming_.empty()) PMPI_Comm_free(&communicator_);
}

}  // namespace hymn
