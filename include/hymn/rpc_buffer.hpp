// Bytes that calls carry beside their other arguments, without copying them.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "hymn/object_format.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn::rpc {

/// Shared memory of one process: a handle, which is cheap to copy. As an argument or result of a
/// call, alone or inside other values, it is sent from where it lies, and arrives in memory of its
/// own. What has been given to a call must not be changed before that call has ended.
class HYMN_API Buffer {
 public:
  /// Below this many bytes it is copied, for that costs less.
  static constexpr std::size_t least_bytes = 4096;

  Buffer() = default;
  /// New memory, which is not initialised, aligned to 64 bytes.
  explicit Buffer(std::size_t bytes);
  /// Memory that `owner` keeps.
  Buffer(std::span<std::byte> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}
  static Buffer copy_of(std::span<const std::byte> bytes);
  /// The vector's memory, which is taken over.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  static Buffer of(std::vector<T> values) {
    auto owner = std::make_shared<std::vector<T>>(std::move(values));
    const auto bytes = std::as_writable_bytes(std::span(*owner));
    return Buffer(bytes, std::move(owner));
  }

  std::span<std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  /// As elements of another type; bytes behind the last whole one are left out.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::span<std::byte> bytes_{};
  std::shared_ptr<const void> owner_{};
};

namespace detail {

class AgentState;
class RefState;

/// What a call carries: values as bytes, and beside them what is not copied there.
struct Packed {
  std::vector<std::byte> body{};
  std::vector<Buffer> buffers{};
  std::vector<std::shared_ptr<RefState>> refs{};
  // Of values that have gradients (hymn/rpc_context.hpp):
  std::uint64_t context = 0;                    ///< 0: none
  std::uint64_t message = 0;                    ///< the number of this message in it
  int from = -1;                                ///< who has sent it
  std::vector<std::shared_ptr<void>> values{};  ///< what they depend on, where it is sent
  std::weak_ptr<AgentState> agent{};            ///< whose call it is, where it has arrived
  std::shared_ptr<void> source{};               ///< what they come from, where it has arrived
};

/// While it lives, formats on this thread may put things beside the bytes, and find them there.
class HYMN_API PackScope {
 public:
  explicit PackScope(Packed& packed);
  ~PackScope();
  PackScope(const PackScope&) = delete;
  PackScope& operator=(const PackScope&) = delete;

  /// Null outside of calls.
  static Packed* current();

 private:
  Packed* before_;
};

template <class... Values>
Packed pack(const Values&... values) {
  Packed packed;
  const PackScope scope(packed);
  ObjectWriter out;
  out.put(values...);
  packed.body = out.take();
  return packed;
}

template <class... Values>
void unpack(Packed& packed, Values&... values) {
  const PackScope scope(packed);
  ObjectReader in(packed.body);
  in.get(values...);
  if (in.left() > 0) in.fail("it is longer than its values");
}

}  // namespace detail
}  // namespace hymn::rpc

template <>
struct HYMN_API hymn::ObjectFormat<hymn::rpc::Buffer> {
  static void write(ObjectWriter& out, const rpc::Buffer& buffer);
  static void read(ObjectReader& in, rpc::Buffer& buffer);
};
