// Ends a test program that hangs, and says in which test.
#pragma once

#include <string>

namespace hymn::test {

/// From now on every test may run for `seconds`, or as many as TEST_LIMIT says; then the process
/// writes `who` and the test's name to stderr and ends with status 124. Call once, after
/// InitGoogleTest.
void install_watchdog(const std::string& who, unsigned seconds);

}  // namespace hymn::test
