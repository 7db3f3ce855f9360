#include "collectives/mpi/mpi_custom.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "hymn/error.hpp"

namespace hymn {
namespace {

/// Of the attribute that types have.
int key() {
  static const int made = [] {
    int value = MPI_KEYVAL_INVALID;
    check_mpi(
        PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &value, nullptr),
        "MPI_Type_create_keyval");
    return value;
  }();
  return made;
}

// To MPI what comes in is of lower ranks, and the result takes the place of what is of higher ones:
// so it is made in a copy.
void combine(const CustomReduction& custom, const std::byte* lower, std::byte* inout,
             std::size_t count) {
  constexpr std::size_t room_bytes = 4096;
  const std::size_t each = custom.element_bytes;
  alignas(64) std::byte few[room_bytes];
  std::unique_ptr<std::byte[]> large;
  if (each > room_bytes) large = std::make_unique_for_overwrite<std::byte[]>(each);
  std::byte* const room = large ? large.get() : few;
  const std::size_t block = std::max<std::size_t>(room_bytes / each, 1);
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    std::memcpy(room, lower + first * each, length * each);
    custom.function(room, inout + first * each, length, custom.context);
    std::memcpy(inout + first * each, room, length * each);
  }
}

void callback(void* lower, void* inout, int* count, MPI_Datatype* type) {
  void* found = nullptr;
  int is_there = 0;
  // It was given with this type; without it no result can be right.
  if (PMPI_Type_get_attr(*type, key(), static_cast<void*>(&found), &is_there) != MPI_SUCCESS ||
      is_there == 0)
    std::abort();
  combine(*static_cast<const CustomReduction*>(found), static_cast<const std::byte*>(lower),
          static_cast<std::byte*>(inout), static_cast<std::size_t>(*count));
}

MPI_Op make_op(bool commutative) {
  MPI_Op made = MPI_OP_NULL;
  check_mpi(PMPI_Op_create(callback, commutative ? 1 : 0, &made), "MPI_Op_create");
  return made;
}

MPI_Op op_for(bool commutative) {
  static const MPI_Op in_order = make_op(false);
  static const MPI_Op in_any = make_op(true);
  return commutative ? in_any : in_order;
}

}  // namespace

MpiCustom::MpiCustom(const CustomReduction& custom, std::shared_ptr<MpiGate> gate)
    : custom_(custom), gate_(std::move(gate)) {
  const MpiGate::Entry entry(*gate_);
  op_ = op_for(custom_.commutative);
  check_mpi(PMPI_Type_contiguous(static_cast<int>(custom_.element_bytes), MPI_BYTE, &type_),
            "MPI_Type_contiguous");
  check_mpi(PMPI_Type_commit(&type_), "MPI_Type_commit");
  check_mpi(PMPI_Type_set_attr(type_, key(), &custom_), "MPI_Type_set_attr");
}

// MPI that has been finalized has nothing to free.
MpiCustom::~MpiCustom() {
  if (!gate_->may_enter()) return;
  try {
    const MpiGate::Entry entry(*gate_);
    PMPI_Type_free(&type_);
  } catch (const Error&) {
    // It has been finalized just now.
  }
}

}  // namespace hymn
