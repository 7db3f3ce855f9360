#include "preload/staging.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "preload/quiet.hpp"

namespace hymn::preload {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t least_block = std::size_t{1} << 16;
constexpr std::size_t most_kept = std::size_t{16} << 20;

struct Free {
  void operator()(std::byte* block) const { ::operator delete(block, std::align_val_t{alignment}); }
};
struct Block {
  std::unique_ptr<std::byte, Free> begin;
  std::size_t bytes = 0;
};

/// Blocks in the order of their use; of the last `used` bytes are taken.
struct Stack {
  std::vector<Block> blocks{};
  std::size_t active = 0;  ///< how many are in use
  std::size_t used = 0;
};

Stack& stack() {
  thread_local Stack own;
  return own;
}

/// Calls `move(piece, bytes before it)`, which returns MPI's error, for pieces of which MPI can
/// count the bytes.
template <class Move>
void in_pieces(const Elements& all, Move move) {
  constexpr std::size_t most = std::size_t{1} << 30;
  const std::size_t each = std::max<std::size_t>(most / all.info.size, 1);
  for (std::size_t done = 0; done < all.count; done += each) {
    const Elements piece =
        part_of(all, static_cast<std::ptrdiff_t>(done), std::min(each, all.count - done));
    const int code = move(piece, done * all.info.size);
    if (code != MPI_SUCCESS) throw MpiFailure{code};
  }
}

/// Elements as MPI_Pack is told of them. MPI_BOTTOM may be a null pointer, which MPICH refuses
/// there (4.0.2): then by another address, and a type that begins as far before it.
class Placed {
 public:
  explicit Placed(const Elements& piece)
      : data_(const_cast<void*>(piece.data)),
        count_(static_cast<int>(piece.count)),
        type_(piece.type) {
    if (data_ != nullptr) return;
    const MPI_Aint place = -moved_by;
    if (PMPI_Type_create_hindexed(1, &count_, &place, piece.type, &moved_) != MPI_SUCCESS) return;
    PMPI_Type_commit(&moved_);
    data_ = reinterpret_cast<void*>(moved_by);
    count_ = 1;
    type_ = moved_;
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
  ~Placed() {
    if (moved_ != MPI_DATATYPE_NULL) PMPI_Type_free(&moved_);
  }

  void* data() const { return data_; }
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  static constexpr std::intptr_t moved_by = 64;
  void* data_;
  int count_;
  MPI_Datatype type_;
  MPI_Datatype moved_ = MPI_DATATYPE_NULL;
};

}  // namespace

Scratch::Scratch() : blocks_before_(stack().active), used_before_(stack().used) {}

Scratch::~Scratch() {
  Stack& own = stack();
  own.active = blocks_before_;
  own.used = used_before_;
  if (own.active != 0) return;
  std::size_t kept = 0;
  std::erase_if(own.blocks, [&](const Block& block) { return (kept += block.bytes) > most_kept; });
}

std::byte* Scratch::take(std::size_t bytes) {
  const std::size_t wanted = (bytes + alignment - 1) / alignment * alignment;
  Stack& own = stack();
  if (own.active != 0 && own.blocks[own.active - 1].bytes - own.used >= wanted) {
    std::byte* const taken = own.blocks[own.active - 1].begin.get() + own.used;
    own.used += wanted;
    return taken;
  }
  while (own.active < own.blocks.size() && own.blocks[own.active].bytes < wanted)
    own.blocks.erase(own.blocks.begin() + static_cast<std::ptrdiff_t>(own.active));
  if (own.active == own.blocks.size()) {
    const std::size_t size = std::max(wanted, least_block);
    void* const made = ::operator new(size, std::align_val_t{alignment});
    own.blocks.push_back({std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(made)), size});
  }
  own.used = wanted;
  return own.blocks[own.active++].begin.get();
}

void pack(const Elements& from, std::byte* to) {
  if (from.bytes() == 0) return;
  if (from.info.is_flat) {
    std::memcpy(to, from.data, from.bytes());
    return;
  }
  in_pieces(from, [&](const Elements& piece, std::size_t before) {
    int place = 0;
    const Placed placed(piece);
    return PMPI_Pack(placed.data(), placed.count(), placed.type(), to + before,
                     static_cast<int>(piece.bytes()), &place, quiet_comm());
  });
}

void unpack(const std::byte* from, const Elements& to) {
  if (to.bytes() == 0) return;
  if (to.info.is_flat) {
    std::memcpy(const_cast<void*>(to.data), from, to.bytes());
    return;
  }
  in_pieces(to, [&](const Elements& piece, std::size_t before) {
    int place = 0;
    const Placed placed(piece);
    return PMPI_Unpack(const_cast<std::byte*>(from + before), static_cast<int>(piece.bytes()),
                       &place, placed.data(), placed.count(), placed.type(), quiet_comm());
  });
}

const std::byte* packed(const Elements& elements, Scratch& scratch) {
  if (elements.info.is_flat) return static_cast<const std::byte*>(elements.data);
  std::byte* const data = scratch.take(elements.bytes());
  pack(elements, data);
  return data;
}

Landing::Landing(const Elements& elements, Scratch& scratch)
    : elements_(elements),
      data_(elements.info.is_flat ? static_cast<std::byte*>(const_cast<void*>(elements.data))
                                  : scratch.take(elements.bytes())) {}

void Landing::load() {
  if (!elements_.info.is_flat) pack(elements_, data_);
}

void Landing::store() const {
  if (!elements_.info.is_flat) unpack(data_, elements_);
}

Elements memory_for(std::size_t bytes, Scratch& scratch) {
  return {scratch.take(bytes), bytes, MPI_BYTE, {.size = 1, .is_known = true, .is_flat = true}};
}

Elements part_of(const Elements& elements, std::ptrdiff_t place, std::size_t count) {
  MPI_Aint low = 0;
  MPI_Aint extent = static_cast<MPI_Aint>(elements.info.size);
  if (!elements.info.is_flat) PMPI_Type_get_extent(elements.type, &low, &extent);
  // MPI_BOTTOM is a null pointer, from which addresses are counted.
  const auto begin = reinterpret_cast<std::uintptr_t>(elements.data);
  const auto moved = begin + static_cast<std::uintptr_t>(place * extent);
  return {reinterpret_cast<const void*>(moved), count, elements.type, elements.info};
}

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

}  // namespace hymn::preload
