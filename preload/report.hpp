// What HYMN_PRELOAD_REPORT=1 prints.
#pragma once

namespace hymn::preload {

class Session;

/// All ranks of MPI_COMM_WORLD call it, at the end; rank 0 prints to stderr.
void print_report(const Session& session);

}  // namespace hymn::preload
