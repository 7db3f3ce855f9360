// Memory of one rank's GPU that the GPUs of its peers reach: those of other processes by handles of
// CUDA's IPC, those of threads of the same process by their addresses.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/meeting.hpp"
#include "gpu/gpu_device.hpp"

namespace hymn {

/// What a rank tells its peers of its staging buffer.
struct IpcStagingTicket {
  int rank = -1;              ///< global, for errors
  std::string host;           ///< the same exactly for ranks of one host
  std::uint64_t process = 0;  ///< the same exactly for ranks of one process
  int gpu = -1;               ///< as the driver numbers it in that process
  cuda_api::Uuid uuid{};
  int multiprocessors = 0;        ///< of that GPU
  int sharers = 1;                ///< ranks that work on it, of this group or not
  cuda_api::Pointer address = 0;  ///< in that process
  std::uint64_t bytes = 0;
  bool has_handle = false;
  cuda_api::IpcHandle handle{};

  Bytes packed() const;
  /// Throws NetworkError when the bytes end too soon.
  static IpcStagingTicket read(const Bytes& packed);
};

/// A number for this process that no other has, as good as certainly.
std::uint64_t process_token();

/// A rank's own staging buffer; freed with it.
class IpcStagingBuffer {
 public:
  /// At least so many bytes, all zero. Throws BackendError.
  IpcStagingBuffer(std::shared_ptr<GpuDevice> gpu, std::size_t bytes);
  ~IpcStagingBuffer();
  IpcStagingBuffer(const IpcStagingBuffer&) = delete;
  IpcStagingBuffer& operator=(const IpcStagingBuffer&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  /// At least as many as were wanted.
  std::size_t bytes() const { return bytes_; }
  /// Copies them there. Throws BackendError.
  void write(std::size_t offset, std::span<const std::byte> bytes);
  /// Without the rank, the host, and who shares the GPU. Where the driver gives no handle the
  /// staging buffer can be reached from this process only. Throws BackendError.
  IpcStagingTicket ticket() const;

 private:
  const std::shared_ptr<GpuDevice> gpu_;
  const std::size_t bytes_;
  cuda_api::Pointer address_ = 0;
};

/// The staging buffers of all peers, as one GPU reaches them; closed with it.
class PeerStagingBuffers {
 public:
  explicit PeerStagingBuffers(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {}
  ~PeerStagingBuffers();
  PeerStagingBuffers(const PeerStagingBuffers&) = delete;
  PeerStagingBuffers& operator=(const PeerStagingBuffers&) = delete;

  /// Opens the staging buffers of these ranks, of which `me` is this one. Returns why one cannot be
  /// reached; empty: all can, as far as the driver knows. Never throws for want of access.
  std::string open(std::span<const IpcStagingTicket> tickets, std::size_t me);
  /// By rank, once all are open.
  const std::vector<std::byte*>& addresses() const { return addresses_; }

 private:
  std::string open_one(const IpcStagingTicket& theirs, const IpcStagingTicket& mine);
  std::string reach_gpu(int index, const IpcStagingTicket& theirs, const IpcStagingTicket& mine);

  const std::shared_ptr<GpuDevice> gpu_;
  std::vector<cuda_api::Pointer> opened_;
  std::vector<std::byte*> addresses_;
};

}  // namespace hymn
