#include "preload/errors.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "hymn/error.hpp"

namespace hymn::preload {
namespace {

int class_of(const std::exception& error) {
  const auto* const own = dynamic_cast<const Error*>(&error);
  if (own == nullptr) return MPI_ERR_INTERN;
  switch (own->kind()) {
    case ErrorKind::usage:
      return MPI_ERR_ARG;
    case ErrorKind::resource:
      return MPI_ERR_NO_MEM;
    case ErrorKind::unsupported:
    case ErrorKind::config:
    case ErrorKind::timeout:
    case ErrorKind::aborted:
    case ErrorKind::peer:
    case ErrorKind::network:
    case ErrorKind::store:
    case ErrorKind::backend:
      break;
    case ErrorKind::internal:
      return MPI_ERR_INTERN;
  }
  return MPI_ERR_OTHER;
}

/// The class to which a code with words is added. MPICH (4.0.2) forgets the words of codes that are
/// added to its own classes, so there it is one of hymn's.
int class_of_words([[maybe_unused]] int of_class) {
#ifdef MPICH_VERSION
  static const int hymns = [] {
    int made = MPI_ERR_OTHER;
    PMPI_Add_error_class(&made);
    return made;
  }();
  return hymns;
#else
  return of_class;
#endif
}

/// An error of this class with hymn's words; the class itself where there can be none.
int code_of(const std::exception& error) {
  const int of_class = class_of(error);
  int code = 0;
  if (PMPI_Add_error_code(class_of_words(of_class), &code) != MPI_SUCCESS) return of_class;
  // All that hymn has to say is longer than MPI can hand on.
  const auto* const own = dynamic_cast<const Error*>(&error);
  std::string text = std::string("hymn: ") + (own != nullptr ? own->problem() : error.what());
  constexpr std::size_t most = std::min(MPI_MAX_ERROR_STRING, 200);
  text.resize(std::min(text.size(), most - 1));
  PMPI_Add_error_string(code, text.c_str());
  return code;
}

/// What ends the program is told in full: MPI's own line is short, and may get lost.
void say_where_fatal(MPI_Comm comm, const std::exception& error) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return;
  if (handler == MPI_ERRORS_ARE_FATAL) std::fprintf(stderr, "hymn: %s\n", error.what());
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
}

}  // namespace

int report_error(MPI_Comm comm, const std::exception& error) {
  say_where_fatal(comm, error);
  const int code = code_of(error);
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace hymn::preload
