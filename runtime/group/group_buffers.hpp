// Buffers that a group's communicator of NCCL knows.
#pragma once

#include <functional>
#include <memory>

#include "hymn/process_group.hpp"
#include "runtime/group/gpu_waits.hpp"

namespace hymn::detail {

class BufferRegistration;

/// As ProcessGroup's.
class GroupBuffers {
 public:
  GroupBuffers(WorldContext& world, const GroupMembers& members, const GroupMeans& means,
               const GroupRecord& record, const GpuWaits& gpu, GroupHealth& health)
      : world_(world),
        members_(members),
        means_(means),
        record_(record),
        gpu_(gpu),
        health_(health) {}

  std::unique_ptr<BufferRegistration> register_buffer(void* data, std::size_t bytes,
                                                      Registration how, Timeout limit);
  std::unique_ptr<BufferRegistration> allocate_registered(std::size_t bytes, Registration how,
                                                          Timeout limit);

 private:
  std::unique_ptr<BufferRegistration> new_registration(Registration how);
  void require_on_gpu(const void* data, std::size_t bytes) const;
  void make_known(BufferRegistration& registration, Timeout limit);
  /// Until `use` could be called alone in NCCL.
  void await_nccl(const std::function<void()>& use, Timeout limit);

  WorldContext& world_;
  const GroupMembers& members_;
  const GroupMeans& means_;
  const GroupRecord& record_;
  const GpuWaits& gpu_;
  GroupHealth& health_;
};

}  // namespace hymn::detail
