// Collectives of blocks of given sizes, one after the other.
#include <stdlib.h>

#include "fortran/call.h"

// The buffers of one call, and the sizes of the blocks that are sent and received.
typedef struct {
  FortranBuffer send;
  FortranBuffer recv;
  size_t* sent;      ///< to be freed
  size_t* received;  ///< NULL: as sent
} Parts;

static size_t* read_counts(FortranReport* report, const char* name, const CFI_cdesc_t* counts,
                           const FortranPlace* place) {
  size_t n = 0;
  size_t* list = fortran_counts(report, name, counts, &n);
  if (list != NULL && n != (size_t)place->size)
    fortran_fault(report, hymnUsageError, "%s has %zu entries, for a group of %d ranks", name, n,
                  place->size);
  return list;
}

static size_t sum_of(const size_t* counts, int n) {
  size_t sum = 0;
  for (int i = 0; i < n; ++i) sum += counts[i];
  return sum;
}

static bool sends_list(hymnCollective_t collective) {
  return collective == hymnCollectiveScatter || collective == hymnCollectiveReduceScatter ||
         collective == hymnCollectiveAllToAll;
}

static bool receives_list(hymnCollective_t collective) {
  return collective == hymnCollectiveGather || collective == hymnCollectiveAllGather ||
         collective == hymnCollectiveAllToAll;
}

// An array may be longer than what the counts take of it.
static void open_side(FortranReport* report, const FortranArguments* given, FortranBuffer* buffer,
                      const char* name, const CFI_cdesc_t* array, size_t needed) {
  *buffer = fortran_open(report, name, array, given->dtype);
  if (report->result == hymnSuccess && buffer->count < needed)
    fortran_fault(report, hymnUsageError, "%s has %zu elements, of which the counts take %zu", name,
                  buffer->count, needed);
  fortran_prepare(report, given, buffer);
}

// Where a rank's own block is among those of all.
static void send_in_place(Parts* parts, const FortranPlace* place) {
  const size_t before = place->rank < 0 ? 0 : sum_of(parts->sent, place->rank);
  if (parts->recv.data == NULL) return;
  parts->send.data = (char*)parts->recv.data + before * parts->recv.array->elem_len;
}

static void open_parts(FortranReport* report, hymnCollective_t collective,
                       const FortranArguments* given, const FortranPlace* place, Parts* parts) {
  if (report->result != hymnSuccess) return;
  const size_t* received = parts->received != NULL ? parts->received : parts->sent;
  const size_t own_sent = place->rank < 0 ? 0 : parts->sent[place->rank];
  const size_t own_received = place->rank < 0 ? 0 : received[place->rank];
  const bool in_place = receives_list(collective) && !sends_list(collective) &&
                        fortran_receives(collective, place) && fortran_is_in_place(given->send);
  if (fortran_sends(collective, place) && !in_place)
    open_side(report, given, &parts->send, "sendbuf", given->send,
              sends_list(collective) ? sum_of(parts->sent, place->size) : own_sent);
  if (fortran_receives(collective, place))
    open_side(report, given, &parts->recv, "recvbuf", given->recv,
              receives_list(collective) ? sum_of(received, place->size) : own_received);
  if (in_place) send_in_place(parts, place);
  if (parts->send.array == NULL || parts->recv.array == NULL) return;
  fortran_compare_types(report, &parts->send, &parts->recv);
}

static hymnResult_t wait_for_v(hymnCollective_t collective, const FortranArguments* given,
                               const Parts* parts, hymnDataType_t dtype, hymnStream_t stream) {
  const void* in = parts->send.data;
  void* out = parts->recv.data;
  const hymnGroup_t group = *given->group;
  const hymnOp_t op = given->op != NULL ? *given->op : (hymnOp_t)hymnSum;
  const int root = given->root != NULL ? *given->root : 0;
  switch ((int)collective) {
    case hymnCollectiveGather:
      return hymnGatherv(in, out, parts->sent, dtype, root, group, stream);
    case hymnCollectiveScatter:
      return hymnScatterv(in, parts->sent, out, dtype, root, group, stream);
    case hymnCollectiveAllGather:
      return hymnAllGatherv(in, out, parts->sent, dtype, group, stream);
    case hymnCollectiveReduceScatter:
      return hymnReduceScatterv(in, parts->sent, out, dtype, op, group, stream);
  }
  return hymnAllToAllv(in, parts->sent, out, parts->received, dtype, group, stream);
}

static hymnResult_t start_v(hymnCollective_t collective, const FortranArguments* given,
                            const Parts* parts, hymnDataType_t dtype, hymnStream_t stream) {
  const void* in = parts->send.data;
  void* out = parts->recv.data;
  const hymnGroup_t group = *given->group;
  const hymnOp_t op = given->op != NULL ? *given->op : (hymnOp_t)hymnSum;
  const int root = given->root != NULL ? *given->root : 0;
  hymnWork_t* work = given->work;
  switch ((int)collective) {
    case hymnCollectiveGather:
      return hymnIGatherv(in, out, parts->sent, dtype, root, group, stream, work);
    case hymnCollectiveScatter:
      return hymnIScatterv(in, parts->sent, out, dtype, root, group, stream, work);
    case hymnCollectiveAllGather:
      return hymnIAllGatherv(in, out, parts->sent, dtype, group, stream, work);
    case hymnCollectiveReduceScatter:
      return hymnIReduceScatterv(in, parts->sent, out, dtype, op, group, stream, work);
  }
  return hymnIAllToAllv(in, parts->sent, out, parts->received, dtype, group, stream, work);
}

static void carry_out_v(FortranReport* report, hymnCollective_t collective,
                        const FortranArguments* given, const Parts* parts) {
  const FortranBuffer* buffer = parts->send.array != NULL ? &parts->send : &parts->recv;
  const hymnStream_t stream = given->stream != NULL ? *given->stream : NULL;
  if (given->op != NULL) fortran_check_op(report, buffer, *given->op);
  if (report->result != hymnSuccess) return;
  fortran_check(report, (given->work == NULL ? wait_for_v : start_v)(collective, given, parts,
                                                                     buffer->dtype, stream));
}

void fortran_collective_v(FortranReport* report, hymnCollective_t collective,
                          const FortranArguments* given) {
  if (given->work != NULL) *given->work = NULL;
  const FortranPlace place = fortran_place(report, given);
  const bool is_all_to_all = collective == hymnCollectiveAllToAll;
  Parts parts = {.sent = NULL};
  parts.sent =
      read_counts(report, is_all_to_all ? "sendcounts" : "counts", given->sendcounts, &place);
  if (is_all_to_all) parts.received = read_counts(report, "recvcounts", given->recvcounts, &place);
  open_parts(report, collective, given, &place, &parts);
  carry_out_v(report, collective, given, &parts);
  fortran_close(report, &parts.send, false);
  fortran_close(report, &parts.recv, true);
  free(parts.sent);
  free(parts.received);
}
