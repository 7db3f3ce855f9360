// What went wrong, told in the way of Fortran.
#include "fortran/report.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { text_bytes = 4096, flush_seconds = 3 };
static _Thread_local char last_text[text_bytes];

/// In hymn.f90: what the program has written so far must not get lost.
void hymn_fortran_flush(void);

const char* fortran_last_error(void) { return last_text; }

// " [rank 2, group 'layers', hymn_gather]", as the errors of hymn itself end.
static void name_the_place(const FortranReport* report, char* end, size_t bytes) {
  const char* tag = NULL;
  int rank = -1, global = -1;
  if (report->group == NULL || hymnGroupRank(report->group, &rank) != hymnSuccess ||
      hymnGroupTag(report->group, &tag) != hymnSuccess) {
    snprintf(end, bytes, " [%s]", report->procedure);
    return;
  }
  const char* group = tag[0] == '\0' ? "default_pg" : tag;
  if (rank < 0 || hymnGroupToGlobal(report->group, rank, &global) != hymnSuccess)
    snprintf(end, bytes, " [group '%s', %s]", group, report->procedure);
  else
    snprintf(end, bytes, " [rank %d, group '%s', %s]", global, group, report->procedure);
}

void fortran_fault(FortranReport* report, hymnResult_t code, const char* format, ...) {
  if (report->result != hymnSuccess) return;
  char text[text_bytes / 2], place[text_bytes / 4];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  name_the_place(report, place, sizeof place);
  snprintf(last_text, sizeof last_text, "%s: %s%s", report->procedure, text, place);
  report->result = code;
  report->is_own = true;
}

// "hymnAllReduce: …": a program that has called hymn_all_reduce does not know that name.
static void take_over(const FortranReport* report, char text_of_procedure[text_bytes]) {
  const char* text = hymnGetLastError();
  const size_t name =
      strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
  const int has_name = strncmp(text, "hymn", 4) == 0 && text[name] == ':';
  snprintf(text_of_procedure, text_bytes, "%s%s%s", report->procedure, has_name ? "" : ": ",
           has_name ? text + name : text);
}

void fortran_check(FortranReport* report, hymnResult_t result) {
  if (report->result != hymnSuccess || result == hymnSuccess) return;
  take_over(report, last_text);
  report->result = result;
}

bool fortran_has_reported(const FortranReport* report, hymnResult_t result) {
  char text[text_bytes];
  if (report->result != result) return false;
  take_over(report, text);
  return strcmp(text, last_text) == 0;
}

// As an intrinsic defines its errmsg: cut off, or padded with blanks.
static void assign(const CFI_cdesc_t* errmsg, const char* text) {
  const size_t room = errmsg->elem_len, length = strlen(text);
  const size_t taken = length < room ? length : room;
  memcpy(errmsg->base_addr, text, taken);
  memset((char*)errmsg->base_addr + taken, ' ', room - taken);
}

static void write_all(const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(STDERR_FILENO, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    from += written;
    bytes -= (size_t)written;
  }
}

static void end_at_once(int number) {
  (void)number;
  _exit(1);
}

// A unit is locked while a statement uses it, for ever where that is the statement that the failed
// call is part of, or where another thread reads.
static void limit_the_flush(void) {
  const struct sigaction ends = {.sa_handler = end_at_once};
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  if (sigaction(SIGALRM, &ends, NULL) != 0) _exit(1);
  pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
  alarm(flush_seconds);
}

// Not exit(): what MPI does there waits for ranks that may be waiting for this one. That this one
// is gone tells them.
static _Noreturn void end_the_program(void) {
  const size_t length = strlen(last_text);
  last_text[length] = '\n';  // in the place of its end, so that both are written at once
  write_all(last_text, length + 1);
  limit_the_flush();
  hymn_fortran_flush();
  fflush(NULL);
  _Exit(1);
}

void fortran_finish(const FortranReport* report) {
  if (report->stat != NULL) *report->stat = (int)report->result;
  if (report->result == hymnSuccess) return;
  if (report->stat == NULL) end_the_program();
  if (report->errmsg != NULL) assign(report->errmsg, last_text);
}

/// For procedures that hymn.f90 has written itself.
HYMN_API void hymnFortranEndProgram(void) { end_the_program(); }
