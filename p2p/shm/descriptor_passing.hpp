// How memory gets to a process that may not look into the one that made it: through a socket.
#pragma once

#include <memory>
#include <string>

#include "hymn/timeout.hpp"
#include "p2p/shm/nameless_memory.hpp"

namespace hymn {

/// What decides whether one process may open what another holds. A plain value that travels.
struct Credentials {
  std::uint64_t pid_namespace = 0;
  std::uint64_t network_namespace = 0;
  std::uint64_t user_namespace = 0;
  std::uint64_t user = 0;
  std::string rights;  ///< the rest: equal where each may look into the other; empty: nobody may

  /// Cheap but for the first time in a process.
  static Credentials of_this_process();
  void pack(Packer& packer) const;
  static Credentials unpack(Unpacker& unpacker);
  friend bool operator==(const Credentials&, const Credentials&) = default;
};

/// How a process gets at another's memory. Both come to the same answer.
enum class WayToMemory : unsigned char { proc, descriptor_passing, none };
WayToMemory way_between(const Credentials& maker, const Credentials& member);

/// Where a process can be handed memory: a socket with a random name, which vanishes with it. One
/// thread at a time.
class DescriptorListener {
 public:
  /// Never throws: where there is no socket to be had, nothing can be handed over.
  static std::unique_ptr<DescriptorListener> open() noexcept;

  /// For pass_descriptor() on the other side.
  Bytes address() const;
  const Credentials& credentials() const { return credentials_; }
  /// Whether it may be used again: nothing waits in it, which would be kept for as long, and what
  /// this process may do is as when it was opened.
  bool is_reusable() const;
  /// Waits for the memory of this key. Throws ResourceError when it has not come by then.
  Descriptor receive(const MemoryKey& key, Duration limit);

 private:
  DescriptorListener() : credentials_(Credentials::of_this_process()) {}
  Descriptor take_one(TimePoint end);

  Credentials credentials_;
  std::string name_;
  Descriptor listener_;
};

/// Hands the memory to the process behind the listener, if it needs that and is the same user's.
/// Never blocks: the socket keeps what the other does not take at once.
void pass_descriptor(const Descriptor& memory, const Credentials& maker,
                     std::span<const std::byte> address);

}  // namespace hymn
