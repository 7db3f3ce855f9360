// Facts made by hand for the tests of `hymn doctor`.
#pragma once

#include "tools/doctor/facts.hpp"

namespace hymn::test {

/// Two hosts with two packages of four cores and a GPU each, and two ranks on each host, bound to a
/// package. There is nothing to find.
JobFacts healthy_job();

}  // namespace hymn::test
