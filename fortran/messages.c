// Messages between two ranks.
#include "fortran/call.h"

// One side of a message.
static FortranBuffer open_message(FortranReport* report, const char* name, const CFI_cdesc_t* array,
                                  const FortranArguments* given) {
  FortranBuffer buffer = fortran_open(report, name, array, given->dtype);
  fortran_prepare(report, given, &buffer);
  return buffer;
}

static hymnStream_t stream_of(const FortranArguments* given) {
  return given->stream != NULL ? *given->stream : NULL;
}

#define MESSAGE_TAIL \
  const hymnDataType_t *dtype, hymnStream_t const *stream, int *stat, const CFI_cdesc_t *errmsg
#define MESSAGE_ARGUMENTS(its_work) \
  const FortranArguments given = {  \
      .group = group, .dtype = dtype, .stream = stream, .work = (its_work)}

HYMN_API void hymnFortranSend(const CFI_cdesc_t* buf, const int* destination, const int* tag,
                              const hymnGroup_t* group, MESSAGE_TAIL) {
  MESSAGE_ARGUMENTS(NULL);
  FORTRAN_BEGIN("hymn_send", *group);
  FortranBuffer buffer = open_message(&report, "buf", buf, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnSend(buffer.data, buffer.count, buffer.dtype, *destination, *tag,
                                    *group, stream_of(&given)));
  fortran_close(&report, &buffer, false);
  FORTRAN_END;
}

HYMN_API void hymnFortranISend(const CFI_cdesc_t* buf, const int* destination, const int* tag,
                               const hymnGroup_t* group, hymnWork_t* work, MESSAGE_TAIL) {
  MESSAGE_ARGUMENTS(work);
  FORTRAN_BEGIN("hymn_isend", *group);
  *work = NULL;
  const FortranBuffer buffer = open_message(&report, "buf", buf, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnISend(buffer.data, buffer.count, buffer.dtype, *destination, *tag,
                                     *group, stream_of(&given), work));
  FORTRAN_END;
}

HYMN_API void hymnFortranRecv(const CFI_cdesc_t* buf, const int* source, const int* tag,
                              const hymnGroup_t* group, hymnRecvStatus_t* status, MESSAGE_TAIL) {
  MESSAGE_ARGUMENTS(NULL);
  FORTRAN_BEGIN("hymn_recv", *group);
  if (status != NULL) *status = fortran_no_status;
  FortranBuffer buffer = open_message(&report, "buf", buf, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnRecv(buffer.data, buffer.count, buffer.dtype, *source, *tag, *group,
                                    stream_of(&given), status));
  fortran_close(&report, &buffer, true);
  FORTRAN_END;
}

HYMN_API void hymnFortranIRecv(const CFI_cdesc_t* buf, const int* source, const int* tag,
                               const hymnGroup_t* group, hymnWork_t* work, MESSAGE_TAIL) {
  MESSAGE_ARGUMENTS(work);
  FORTRAN_BEGIN("hymn_irecv", *group);
  *work = NULL;
  const FortranBuffer buffer = open_message(&report, "buf", buf, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnIRecv(buffer.data, buffer.count, buffer.dtype, *source, *tag, *group,
                                     stream_of(&given), work));
  FORTRAN_END;
}

HYMN_API void hymnFortranSendrecv(const CFI_cdesc_t* sendbuf, const int* destination,
                                  const int* sendtag, const CFI_cdesc_t* recvbuf, const int* source,
                                  const int* recvtag, const hymnGroup_t* group,
                                  hymnRecvStatus_t* status, MESSAGE_TAIL) {
  MESSAGE_ARGUMENTS(NULL);
  FORTRAN_BEGIN("hymn_sendrecv", *group);
  if (status != NULL) *status = fortran_no_status;
  FortranBuffer sent = open_message(&report, "sendbuf", sendbuf, &given);
  FortranBuffer received = {.name = "recvbuf"};
  if (report.result == hymnSuccess) received = open_message(&report, "recvbuf", recvbuf, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnSendrecv(sent.data, sent.count, sent.dtype, *destination, *sendtag,
                                        received.data, received.count, received.dtype, *source,
                                        *recvtag, *group, stream_of(&given), status));
  fortran_close(&report, &sent, false);
  fortran_close(&report, &received, true);
  FORTRAN_END;
}

HYMN_API void hymnFortranISendrecv(const CFI_cdesc_t* sendbuf, const int* destination,
                                   const int* sendtag, const CFI_cdesc_t* recvbuf,
                                   const int* source, const int* recvtag, const hymnGroup_t* group,
                                   hymnWork_t* work, MESSAGE_TAIL) {
  MESSAGE_ARGUMENTS(work);
  FORTRAN_BEGIN("hymn_isendrecv", *group);
  *work = NULL;
  const FortranBuffer sent = open_message(&report, "sendbuf", sendbuf, &given);
  FortranBuffer received = {.name = "recvbuf"};
  if (report.result == hymnSuccess) received = open_message(&report, "recvbuf", recvbuf, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnISendrecv(sent.data, sent.count, sent.dtype, *destination, *sendtag,
                                         received.data, received.count, received.dtype, *source,
                                         *recvtag, *group, stream_of(&given), work));
  FORTRAN_END;
}

HYMN_API void hymnFortranSendrecvReplace(const CFI_cdesc_t* buf, const int* destination,
                                         const int* sendtag, const int* source, const int* recvtag,
                                         const hymnGroup_t* group, hymnRecvStatus_t* status,
                                         MESSAGE_TAIL) {
  MESSAGE_ARGUMENTS(NULL);
  FORTRAN_BEGIN("hymn_sendrecv_replace", *group);
  if (status != NULL) *status = fortran_no_status;
  FortranBuffer buffer = open_message(&report, "buf", buf, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnSendrecvReplace(buffer.data, buffer.count, buffer.dtype,
                                               *destination, *sendtag, *source, *recvtag, *group,
                                               stream_of(&given), status));
  fortran_close(&report, &buffer, true);
  FORTRAN_END;
}

HYMN_API void hymnFortranProbe(const int* source, const int* tag, const hymnGroup_t* group,
                               hymnMessageInfo_t* info, int* stat, const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_probe", *group);
  *info = fortran_no_message;
  fortran_check(&report, hymnProbe(*source, *tag, *group, info));
  FORTRAN_END;
}

HYMN_API void hymnFortranIprobe(const int* source, const int* tag, const hymnGroup_t* group,
                                int* found, hymnMessageInfo_t* info, int* stat) {
  const CFI_cdesc_t* const errmsg = NULL;  // set by hymn.f90
  FORTRAN_BEGIN("hymn_iprobe", *group);
  *found = 0;
  fortran_check(&report, hymnIprobe(*source, *tag, *group, found, info));
  FORTRAN_END;
}
