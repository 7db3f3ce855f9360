// Linked into MPI tests of sanitized builds only: MPI unloads its plugins when it is finalized, and
// a leak report cannot name functions of a library that is gone, so suppressions would not match.

extern "C" int dlclose(void*) { return 0; }
