// What the launcher's variables tell before MPI is up.
#pragma once

namespace hymn {

/// Whether mpirun, srun with an MPI plugin or hymn run has started this process as a rank of a job.
bool is_launched();

/// Whether this process says what all ranks would say alike: it is alone, or the first rank.
bool speaks_for_all();

/// For ranks that fail without a word, because the first says it for all: a launcher ends the whole
/// job when one rank has failed, so these wait until the first must have spoken.
void let_the_first_rank_speak();

}  // namespace hymn
