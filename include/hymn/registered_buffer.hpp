// Memory of a GPU that a group's communicator of NCCL knows: ProcessGroup::register_buffer().
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>

#include "hymn/export.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

namespace detail {
class BufferRegistration;
}

/// In which way NCCL knows it.
enum class Registration : std::uint8_t {
  local,   ///< each rank's buffer by itself (ncclCommRegister): NCCL 2.19 or newer
  window,  ///< as a window of symmetric memory of all members (ncclCommWindowRegister): 2.27 or
           ///< newer
};

/// Owns a registration, and the memory where NCCL has allocated it. Movable, empty by default. It
/// may outlive the group, whose end ends the registration, but not the memory.
class HYMN_API RegisteredBuffer {
 public:
  RegisteredBuffer();
  explicit RegisteredBuffer(std::unique_ptr<detail::BufferRegistration> state);
  RegisteredBuffer(RegisteredBuffer&& other) noexcept;
  RegisteredBuffer& operator=(RegisteredBuffer&& other) noexcept;
  /// As release(); what goes wrong then is lost.
  ~RegisteredBuffer();

  void* data() const noexcept;
  std::size_t bytes() const noexcept;
  /// Whether NCCL still knows it: not after release(), nor when the communicator has ended.
  bool is_registered() const noexcept;
  /// Ends the registration, and frees memory that NCCL has allocated; where the group was given up,
  /// as soon as NCCL has let go of it. No operation may be in flight on it. Local: ranks may do it
  /// in any order. Twice is fine. Throws BackendError.
  void release();

 private:
  std::unique_ptr<detail::BufferRegistration> state_;
};

}  // namespace hymn
