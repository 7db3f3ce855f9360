// Where in the Python program a call is made: errors, dumps and other ranks name that place.
#pragma once

namespace hymn_torch {

/// The calls of hymn's that this thread makes during its life come from where the Python program
/// has called torch; from nowhere in particular where no Python function is known.
class PythonSite {
 public:
  PythonSite();
  PythonSite(const PythonSite&) = delete;
  PythonSite& operator=(const PythonSite&) = delete;
  ~PythonSite();
};

/// What is called from these files, or from below these folders, comes from their caller: torch
/// itself. Once, with the interpreter's lock.
void set_own_code_of_torch();

}  // namespace hymn_torch
