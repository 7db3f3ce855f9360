// What does not lie in memory as it travels is packed before, and unpacked behind.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "preload/mpi.hpp"
#include "preload/types.hpp"

namespace hymn::preload {

/// Memory of one thread for the time of a call. What is taken stays where it is until the last
/// Scratch of the thread ends, and is kept for the next call unless it is much.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  /// Aligned for every type.
  std::byte* take(std::size_t bytes);

 private:
  std::size_t blocks_before_;
  std::size_t used_before_;
};

/// Elements of the program.
struct Elements {
  const void* data = nullptr;
  std::size_t count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  TypeInfo info{};

  std::size_t bytes() const { return count * info.size; }
  /// MPI has nothing to say against them. (MPI_BOTTOM is null, of types that have their addresses.)
  bool is_sound() const {
    return info.is_known && (data != nullptr || bytes() == 0 || !info.is_flat);
  }
};

/// MPI has refused a type of the program: its error.
struct MpiFailure {
  int code;
};

/// Throws MpiFailure.
void pack(const Elements& from, std::byte* to);
void unpack(const std::byte* from, const Elements& to);

/// As they travel: where they lie, or packed.
const std::byte* packed(const Elements& elements, Scratch& scratch);

/// Where they may be received: where they lie, or memory from which store() unpacks them.
class Landing {
 public:
  Landing(const Elements& elements, Scratch& scratch);
  std::byte* data() const { return data_; }
  /// What is there now is to stay where nothing is received.
  void load();
  void store() const;

 private:
  Elements elements_;
  std::byte* data_;
};

/// For what goes nowhere, as it travels.
Elements memory_for(std::size_t bytes, Scratch& scratch);

/// The part of `elements` from this place on, which counts extents of the type.
Elements part_of(const Elements& elements, std::ptrdiff_t place, std::size_t count);

/// Whether they have a byte in common.
bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes);

}  // namespace hymn::preload
