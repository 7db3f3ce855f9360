#include "runtime/group/group_buffers.hpp"

#include <fmt/format.h>

#include "base/error_context.hpp"
#include "collectives/launch/launch_queue.hpp"
#include "gpu/nccl_calls.hpp"
#include "gpu/nccl_library.hpp"
#include "hymn/registered_buffer.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn {
namespace detail {

/// What stands behind a RegisteredBuffer.
class BufferRegistration {
 public:
  BufferRegistration(std::shared_ptr<NcclChannel> channel, Registration how)
      : known(std::make_shared<NcclChannel::KnownBuffer>()), channel_(std::move(channel)) {
    known->how = how;
  }
  ~BufferRegistration() {
    try {
      release();
    } catch (...) {  // NOLINT: nobody could be told
    }
  }
  BufferRegistration(const BufferRegistration&) = delete;
  BufferRegistration& operator=(const BufferRegistration&) = delete;

  void allocate(std::size_t bytes) {
    const nccl_api::Functions& nccl = channel_->parts().nccl.nccl;
    const GpuDevice::Entry entry(channel_->gpu());
    call(nccl, nccl.allocate, &known->data, bytes);
    known->bytes = bytes;
    owns_memory_ = true;
  }
  void release() {
    const auto free_memory = [this] {
      const GpuDevice::Entry entry(channel_->gpu());
      if (std::exchange(owns_memory_, false)) channel_->free(std::exchange(known->data, nullptr));
    };
    try {
      channel_->queue().alone([this] { channel_->forget(known); });
    } catch (...) {
      free_memory();
      throw;
    }
    free_memory();
  }
  bool is_registered() const { return channel_->knows(*known); }

  const std::shared_ptr<NcclChannel::KnownBuffer> known;

 private:
  std::shared_ptr<NcclChannel> channel_;
  bool owns_memory_ = false;
};

namespace {

constexpr const char* register_operation = "register_buffer";

/// Throws UnsupportedError where this version of NCCL has not what is asked of it.
template <class Signature>
void require(const nccl_api::Functions& nccl, const Function<Signature>& function,
             const char* since) {
  if (function.pointer != nullptr) return;
  int version = 0;
  if (nccl.get_version.pointer != nullptr) nccl.get_version.pointer(&version);
  throw UnsupportedError(fmt::format("NCCL {} has no {}: {} or newer is needed",
                                     nccl_version_text(version), function.name, since),
                         {.remedy = "install a newer NCCL on all hosts, or do without"});
}

void require_way(const nccl_api::Functions& nccl, Registration how) {
  if (how == Registration::window)
    require(nccl, nccl.open_window, "2.27");
  else
    require(nccl, nccl.register_buffer, "2.19");
}

}  // namespace

std::unique_ptr<BufferRegistration> GroupBuffers::register_buffer(void* data, std::size_t bytes,
                                                                  Registration how, Timeout limit) {
  try {
    auto made = new_registration(how);
    require_on_gpu(data, bytes);
    made->known->data = data;
    made->known->bytes = bytes;
    make_known(*made, limit);
    return made;
  } catch (...) {
    rethrow_with(members_.context(register_operation));
  }
}

std::unique_ptr<BufferRegistration> GroupBuffers::allocate_registered(std::size_t bytes,
                                                                      Registration how,
                                                                      Timeout limit) {
  try {
    auto made = new_registration(how);
    require(means_.nccl->parts().nccl.nccl, means_.nccl->parts().nccl.nccl.allocate, "2.19");
    if (bytes == 0) throw UsageError("there are no bytes to allocate");
    made->allocate(bytes);
    make_known(*made, limit);
    return made;
  } catch (...) {
    rethrow_with(members_.context("allocate_registered"));
  }
}

std::unique_ptr<BufferRegistration> GroupBuffers::new_registration(Registration how) {
  world_.life.require_here(members_.context(register_operation));
  if (health_.is_destroyed() || world_.life.is_destroyed())
    throw UsageError("the group has been destroyed");
  if (!members_.is_member())
    throw UsageError(fmt::format("rank {} is not a member", world_.rank()));
  if (health_.is_aborted()) std::rethrow_exception(health_.aborted_error(register_operation));
  if (!world_.life.may_drive()) world_.life.require_drive(members_.context(register_operation));
  if (means_.nccl == nullptr)
    throw UnsupportedError(
        fmt::format("NCCL does not carry this group{}{}", means_.reach.why_not.empty() ? "" : ": ",
                    means_.reach.why_not),
        {.remedy = "explain() tells why"});
  require_way(means_.nccl->parts().nccl.nccl, how);
  return std::make_unique<BufferRegistration>(means_.nccl, how);
}

void GroupBuffers::require_on_gpu(const void* data, std::size_t bytes) const {
  MemoryQuery* const memory = world_.settings.memory;
  const MemoryAt found = memory != nullptr ? memory->at(data) : MemoryAt{};
  const int gpu = means_.reach.gpu->index();
  const std::size_t left = found.begin + found.bytes - reinterpret_cast<std::uintptr_t>(data);
  if (found.kind != MemoryKind::device || found.gpu != gpu)
    throw UsageError(
        fmt::format("{} is not in the memory of GPU {}, on which this rank works", data, gpu),
        {.remedy = "give memory of that GPU that has not been freed"});
  if (bytes == 0 || bytes > left)
    throw UsageError(fmt::format("{} bytes are to be registered, but the allocation has {} from {} "
                                 "on",
                                 bytes, left, data),
                     {.remedy = "register what was allocated, or a part of it"});
}

// A window is known once NCCL is through with the call. Without a communicator the group is of no
// use to any member.
void GroupBuffers::make_known(BufferRegistration& registration, Timeout limit) {
  NcclChannel& channel = *means_.nccl;
  try {
    await_nccl([&] { channel.make_known(registration.known); }, limit);
    await_nccl([] {}, limit);
  } catch (...) {
    if (!channel.was_ready())
      health_.abort(health_.describe_failure(std::current_exception(), register_operation));
    throw;
  }
}

void GroupBuffers::await_nccl(const std::function<void()>& use, Timeout limit) {
  NcclChannel& channel = *means_.nccl;
  bool is_done = false;
  const auto step = [&] { return is_done = is_done || channel.queue().try_alone(channel, use); };
  const auto waited = gpu_.await(step, limit, [&] {
    if (health_.is_sound()) return;
    if (const auto error = health_.hopeless({.sequence = record_.collective_sequence() + 1}, step))
      std::rethrow_exception(error);
  });
  if (!waited) return;
  const TimeoutError error(
      fmt::format("{} of group '{}' has not completed on rank {} after {:.3f} s: NCCL waits for a "
                  "member that has not called it",
                  register_operation, members_.label(), world_.rank(),
                  std::chrono::duration<double>(*waited).count()),
      *waited, {.remedy = "let all members call it; or allow more time"});
  health_.abort({error.problem()});
  throw error;
}

}  // namespace detail

RegisteredBuffer::RegisteredBuffer() = default;
RegisteredBuffer::RegisteredBuffer(std::unique_ptr<detail::BufferRegistration> state)
    : state_(std::move(state)) {}
RegisteredBuffer::RegisteredBuffer(RegisteredBuffer&& other) noexcept = default;
RegisteredBuffer& RegisteredBuffer::operator=(RegisteredBuffer&& other) noexcept = default;
RegisteredBuffer::~RegisteredBuffer() = default;

void* RegisteredBuffer::data() const noexcept { return state_ ? state_->known->data : nullptr; }
std::size_t RegisteredBuffer::bytes() const noexcept { return state_ ? state_->known->bytes : 0; }
bool RegisteredBuffer::is_registered() const noexcept { return state_ && state_->is_registered(); }
void RegisteredBuffer::release() {
  if (state_) state_->release();
}

RegisteredBuffer ProcessGroup::register_buffer(void* data, std::size_t bytes, Registration how,
                                               const CallOptions& options) {
  return RegisteredBuffer(detail::need(state_).buffers().register_buffer(
      data, bytes, how, detail::need(state_).limit_of(options)));
}

RegisteredBuffer ProcessGroup::allocate_registered(std::size_t bytes, Registration how,
                                                   const CallOptions& options) {
  return RegisteredBuffer(detail::need(state_).buffers().allocate_registered(
      bytes, how, detail::need(state_).limit_of(options)));
}

}  // namespace hymn
