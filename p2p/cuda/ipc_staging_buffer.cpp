#include "p2p/cuda/ipc_staging_buffer.hpp"

#include <fmt/format.h>

#include <cstring>
#include <random>

#include "gpu/cuda_calls.hpp"
#include "gpu/gpu_functions.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

using namespace cuda_api;

// Small allocations share pages, and a handle shows others all of them: so a staging buffer has its
// own.
constexpr std::size_t gpu_page = std::size_t{2} << 20;

std::size_t whole_gpu_pages(std::size_t bytes) {
  return (bytes + gpu_page - 1) / gpu_page * gpu_page;
}

Uuid uuid_of(const Functions& cuda, int index) {
  Device device = 0;
  Uuid uuid{};
  call(cuda, cuda.device, &device, index);
  call(cuda, cuda.uuid.pointer != nullptr ? cuda.uuid : cuda.old_uuid, &uuid, device);
  return uuid;
}

/// -1: this process does not see it.
int find_gpu(const Functions& cuda, const Uuid& uuid) {
  int count = 0;
  call(cuda, cuda.count, &count);
  for (int index = 0; index < count && index < static_cast<int>(max_gpus_of_a_host); ++index)
    if (uuid_of(cuda, index).bytes == uuid.bytes) return index;
  return -1;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
void read_into(T& value, const Bytes& bytes) {
  if (bytes.size() != sizeof(T))
    throw NetworkError("a peer's staging buffer is described in an unknown format");
  std::memcpy(&value, bytes.data(), sizeof(T));
}

}  // namespace

std::uint64_t process_token() {
  static const std::uint64_t token = [] {
    std::random_device random;
    return static_cast<std::uint64_t>(random()) << 32 | random();
  }();
  return token;
}

Bytes IpcStagingTicket::packed() const {
  Packer packer;
  packer.number(static_cast<std::uint64_t>(rank)).text(host).number(process);
  packer.number(static_cast<std::uint64_t>(gpu)).bytes(bytes_of(uuid));
  packer.number(static_cast<std::uint64_t>(multiprocessors));
  packer.number(static_cast<std::uint64_t>(sharers)).number(address);
  packer.number(bytes).number(has_handle ? 1 : 0).bytes(bytes_of(handle));
  return packer.packed();
}

IpcStagingTicket IpcStagingTicket::read(const Bytes& packed) {
  Unpacker unpacker(packed);
  IpcStagingTicket ticket;
  ticket.rank = static_cast<int>(unpacker.number());
  ticket.host = unpacker.text();
  ticket.process = unpacker.number();
  ticket.gpu = static_cast<int>(unpacker.number());
  read_into(ticket.uuid, unpacker.bytes());
  ticket.multiprocessors = static_cast<int>(unpacker.number());
  ticket.sharers = static_cast<int>(unpacker.number());
  ticket.address = unpacker.number();
  ticket.bytes = unpacker.number();
  ticket.has_handle = unpacker.number() != 0;
  read_into(ticket.handle, unpacker.bytes());
  return ticket;
}

IpcStagingBuffer::IpcStagingBuffer(std::shared_ptr<GpuDevice> gpu, std::size_t bytes)
    : gpu_(std::move(gpu)), bytes_(whole_gpu_pages(bytes)) {
  const Functions& cuda = gpu_->cuda();
  const GpuDevice::Entry entry(*gpu_);
  call(cuda, cuda.allocate, &address_, bytes_);
  try {
    constexpr unsigned char zero = 0;
    call(cuda, cuda.fill, address_, zero, bytes_);
    call(cuda, cuda.synchronize);
  } catch (...) {
    cuda.release.pointer(address_);
    throw;
  }
}

// The driver may be gone by now, at the end of the process: nothing is done about failures.
IpcStagingBuffer::~IpcStagingBuffer() {
  try {
    const GpuDevice::Entry entry(*gpu_);
    gpu_->cuda().release.pointer(address_);
  } catch (const Error&) {
  }
}

void IpcStagingBuffer::write(std::size_t offset, std::span<const std::byte> bytes) {
  const GpuDevice::Entry entry(*gpu_);
  call(gpu_->cuda(), gpu_->cuda().to_gpu, address_ + offset, static_cast<const void*>(bytes.data()),
       bytes.size());
}

IpcStagingTicket IpcStagingBuffer::ticket() const {
  const Functions& cuda = gpu_->cuda();
  const GpuDevice::Entry entry(*gpu_);
  IpcStagingTicket ticket;
  ticket.process = process_token();
  ticket.gpu = gpu_->index();
  ticket.uuid = uuid_of(cuda, gpu_->index());
  ticket.multiprocessors = gpu_->multiprocessors();
  ticket.address = address_;
  ticket.bytes = bytes_;
  ticket.has_handle = cuda.get_ipc_handle.pointer != nullptr &&
                      cuda.get_ipc_handle.pointer(&ticket.handle, address_) == success;
  return ticket;
}

PeerStagingBuffers::~PeerStagingBuffers() {
  try {
    const GpuDevice::Entry entry(*gpu_);
    for (const Pointer address : opened_) gpu_->cuda().close_ipc_handle.pointer(address);
  } catch (const Error&) {
  }
}

std::string PeerStagingBuffers::open(std::span<const IpcStagingTicket> tickets, std::size_t me) {
  try {
    const GpuDevice::Entry entry(*gpu_);
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      if (i == me) {
        addresses_.push_back(reinterpret_cast<std::byte*>(tickets[i].address));
        continue;
      }
      std::string why = open_one(tickets[i], tickets[me]);
      if (!why.empty()) return why;
    }
  } catch (const Error& error) {
    return error.problem();
  }
  return "";
}

// The driver may open what is on a GPU that this process does not see: whether bytes arrive is
// tried later, on all GPUs alike.
std::string PeerStagingBuffers::open_one(const IpcStagingTicket& theirs,
                                         const IpcStagingTicket& mine) {
  if (theirs.host != mine.host)
    return fmt::format("rank {} is on a different host ({}) than rank {} ({})", theirs.rank,
                       theirs.host, mine.rank, mine.host);
  const Functions& cuda = gpu_->cuda();
  const int index = find_gpu(cuda, theirs.uuid);
  const bool is_seen = index >= 0;
  if (is_seen)
    if (std::string why = reach_gpu(index, theirs, mine); !why.empty()) return why;
  if (theirs.process == mine.process) {
    addresses_.push_back(reinterpret_cast<std::byte*>(theirs.address));
    return "";
  }
  if (!theirs.has_handle)
    return fmt::format("the driver of rank {} has no IPC handles for other processes", theirs.rank);
  Pointer address = 0;
  try {
    call(cuda, cuda.open_ipc_handle, &address, theirs.handle, ipc_enable_peer_access);
  } catch (const Error& error) {
    if (is_seen) throw;
    return fmt::format(
        "rank {} does not see the GPU of rank {} (CUDA_VISIBLE_DEVICES, or its container, hides "
        "it), and {}",
        mine.rank, theirs.rank, error.problem());
  }
  opened_.push_back(address);
  addresses_.push_back(reinterpret_cast<std::byte*>(address));
  return "";
}

// What a handle opens is reached by opening it; addresses of the own process need more.
std::string PeerStagingBuffers::reach_gpu(int index, const IpcStagingTicket& theirs,
                                          const IpcStagingTicket& mine) {
  if (index == gpu_->index()) return "";
  const Functions& cuda = gpu_->cuda();
  Device own = 0;
  Device other = 0;
  int can = 0;
  call(cuda, cuda.device, &own, gpu_->index());
  call(cuda, cuda.device, &other, index);
  call(cuda, cuda.can_access_peer, &can, own, other);
  if (can == 0)
    return fmt::format("GPU {} has no peer access to GPU {}, that of rank {}", gpu_->index(), index,
                       theirs.rank);
  if (theirs.process != mine.process) return "";
  GpuDevice peer(cuda, index);
  const auto& enable = cuda.enable_peer_access;
  if (enable.pointer == nullptr) throw_lacking("libcuda.so.1", enable.name);
  const Result result = enable.pointer(peer.context(), no_flags);
  if (result != success && result != peer_access_already_enabled)
    throw_cuda_error(cuda, enable.name, result);
  return "";
}

}  // namespace hymn
