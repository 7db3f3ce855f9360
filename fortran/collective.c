// Collectives of equal blocks: how many elements each has follows from the arrays.
#include <string.h>

#include "fortran/call.h"
#include "fortran/pack.h"
#include "hymn/hymn_coalesced.h"
#include "hymn/hymn_shaped.h"

FortranPlace fortran_place(FortranReport* report, const FortranArguments* given) {
  FortranPlace place = {.size = 1, .rank = -1};
  int root = -1;
  fortran_check(report, hymnGroupRank(*given->group, &place.rank));
  if (report->result != hymnSuccess) return place;
  fortran_check(report, hymnGroupSize(*given->group, &place.size));
  if (given->root == NULL) return place;
  // A root that is not of the group is told by the call itself.
  place.is_root = hymnGroupFromGlobal(*given->group, *given->root, &root) == hymnSuccess &&
                  root == place.rank && root >= 0;
  return place;
}

bool fortran_sends(hymnCollective_t collective, const FortranPlace* place) {
  if (collective == hymnCollectiveBroadcast) return false;
  return collective != hymnCollectiveScatter || place->is_root;
}

bool fortran_receives(hymnCollective_t collective, const FortranPlace* place) {
  const bool has_root = collective == hymnCollectiveReduce || collective == hymnCollectiveGather;
  return !has_root || place->is_root;
}

// A scope keeps the address that a call is given until it ends, when a copy is no longer there.
// That one is open is told by the refusal of another one.
static void refuse_copies_in_scopes(FortranReport* report, const FortranArguments* given,
                                    const FortranBuffer* buffer) {
  if (report->result != hymnSuccess || fortran_is_contiguous(buffer->array)) return;
  const hymnResult_t result = hymnCoalesceBegin(*given->group, NULL);
  if (result == hymnSuccess)
    (void)hymnCoalesceCancel(*given->group);
  else if (result == hymnUsageError && strstr(hymnGetLastError(), "coalescing scope") != NULL)
    fortran_fault(report, hymnUsageError,
                  "%s is not contiguous, and a call in a coalescing scope copies nothing; remedy: "
                  "give it a contiguous array, or end the scope first",
                  buffer->name);
  else
    fortran_check(report, result);
}

void fortran_prepare(FortranReport* report, const FortranArguments* given, FortranBuffer* buffer) {
  if (given->work != NULL || given->stream != NULL) {
    fortran_refuse_strides(report, buffer);
    return;
  }
  refuse_copies_in_scopes(report, given, buffer);
  fortran_pack(report, buffer);
}

// How many blocks of `count` elements each side has.
typedef struct {
  size_t sent;
  size_t received;
} Blocks;

static Blocks blocks_of(hymnCollective_t collective, int size) {
  const bool is_list_sent = collective == hymnCollectiveScatter ||
                            collective == hymnCollectiveReduceScatter ||
                            collective == hymnCollectiveAllToAll;
  const bool is_list_received = collective == hymnCollectiveGather ||
                                collective == hymnCollectiveAllGather ||
                                collective == hymnCollectiveAllToAll;
  return (Blocks){is_list_sent ? (size_t)size : 1, is_list_received ? (size_t)size : 1};
}

// One call on its way: in place, one of the two buffers is not used.
typedef struct {
  FortranBuffer send;
  FortranBuffer recv;
  bool sends;
  bool receives;
  bool sends_in_place;
  bool receives_in_place;
} Sides;

static Sides open_sides(FortranReport* report, hymnCollective_t collective,
                        const FortranArguments* given, const FortranPlace* place) {
  Sides sides = {.sends = fortran_sends(collective, place),
                 .receives = fortran_receives(collective, place)};
  sides.sends_in_place = sides.sends && sides.receives && fortran_is_in_place(given->send) &&
                         collective != hymnCollectiveReduceScatter &&
                         collective != hymnCollectiveScatter;
  sides.receives_in_place =
      collective == hymnCollectiveScatter && sides.sends && fortran_is_in_place(given->recv);
  if (sides.sends_in_place) sides.sends = false;
  if (sides.receives_in_place) sides.receives = false;
  if (sides.sends) sides.send = fortran_open(report, "sendbuf", given->send, given->dtype);
  if (sides.receives)
    sides.recv = fortran_open(report, collective == hymnCollectiveBroadcast ? "buf" : "recvbuf",
                              given->recv, given->dtype);
  return sides;
}

// The elements of one block; reports arrays whose sizes do not fit together.
static size_t block_count(FortranReport* report, const Sides* sides, const Blocks* blocks,
                          const FortranPlace* place) {
  const FortranBuffer* first = sides->sends ? &sides->send : &sides->recv;
  const size_t of_first = sides->sends ? blocks->sent : blocks->received;
  if (report->result != hymnSuccess || place->rank < 0) return 0;
  if (first->count % of_first != 0)
    fortran_fault(report, hymnUsageError,
                  "%s has %zu elements, which cannot be divided equally among %zu ranks",
                  first->name, first->count, of_first);
  const size_t count = first->count / of_first;
  if (sides->sends && sides->receives && sides->recv.count != count * blocks->received)
    fortran_fault(report, hymnUsageError,
                  "sendbuf has %zu elements and recvbuf %zu, which should have %zu",
                  sides->send.count, sides->recv.count, count * blocks->received);
  return count;
}

// In place a rank's own block is where it belongs among those of all.
static void* own_block(const FortranBuffer* all, size_t blocks, const FortranPlace* place,
                       size_t count) {
  const size_t before = blocks > 1 && place->rank > 0 ? (size_t)place->rank * count : 0;
  return (char*)all->data + before * all->array->elem_len;
}

static void carry_out(FortranReport* report, hymnCollective_t collective,
                      const FortranArguments* given, const hymnCollectiveCall_t* call) {
  const hymnStream_t stream = given->stream != NULL ? *given->stream : NULL;
  if (report->result != hymnSuccess) return;
  fortran_check(report,
                given->work == NULL
                    ? hymnCollectiveShaped(collective, call, NULL, NULL, *given->group, stream)
                    : hymnICollectiveShaped(collective, call, NULL, NULL, *given->group, stream,
                                            given->work));
}

static hymnCollectiveCall_t call_of(const FortranArguments* given, const Sides* sides,
                                    const Blocks* blocks, const FortranPlace* place, size_t count) {
  hymnCollectiveCall_t call = {.count = count};
  call.dtype = sides->sends ? sides->send.dtype : sides->recv.dtype;
  if (sides->sends) call.sendbuf = sides->send.data;
  if (sides->receives) call.recvbuf = sides->recv.data;
  // An all-to-all in place is of the whole: the lists of both sides are one.
  if (sides->sends_in_place)
    call.sendbuf = blocks->sent > 1 ? sides->recv.data
                                    : own_block(&sides->recv, blocks->received, place, count);
  if (sides->receives_in_place) call.recvbuf = own_block(&sides->send, blocks->sent, place, count);
  if (given->op != NULL) call.op = *given->op;
  if (given->root != NULL) call.root = *given->root;
  return call;
}

void fortran_collective(FortranReport* report, hymnCollective_t collective,
                        const FortranArguments* given) {
  if (given->work != NULL) *given->work = NULL;
  const FortranPlace place = fortran_place(report, given);
  if (report->result != hymnSuccess) return;
  Sides sides = open_sides(report, collective, given, &place);
  const Blocks blocks = blocks_of(collective, place.size);
  if (sides.sends && sides.receives) fortran_compare_types(report, &sides.send, &sides.recv);
  const size_t count = block_count(report, &sides, &blocks, &place);
  if (given->op != NULL)
    fortran_check_op(report, sides.sends ? &sides.send : &sides.recv, *given->op);
  if (sides.sends) fortran_prepare(report, given, &sides.send);
  if (sides.receives) fortran_prepare(report, given, &sides.recv);
  const hymnCollectiveCall_t call = call_of(given, &sides, &blocks, &place, count);
  carry_out(report, collective, given, &call);
  fortran_close(report, &sides.send, false);
  fortran_close(report, &sides.recv, true);
}
